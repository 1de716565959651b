"""Read ChatGPT's data export: conversations.json, alone or in its folder or zip archive."""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.sources.exports import find_export_files, find_first_conversation, iterate_conversations

_ORIGIN = "conversations"


def detect(sample: Sample) -> float:
    first_conversation = find_first_conversation(sample)
    return 0.95 if first_conversation is not None and isinstance(first_conversation.get("mapping"), dict) else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    for place, conversation in iterate_conversations(import_input.files):
        if not isinstance(conversation, dict) or not isinstance(conversation.get("mapping"), dict):
            yield BadRow(_ORIGIN, place, "the conversation has no mapping of messages", conversation)
            continue
        yield from _read_conversation(place, conversation)


def _read_conversation(place: str, conversation: Mapping[str, Any]) -> Iterator[SourceItem]:
    """Yield a session, and the messages on the branch with which the conversation ends."""
    session_id = conversation.get("conversation_id") or conversation.get("id")
    mapping = conversation["mapping"]
    session = {
        "id": session_id,
        "title": conversation.get("title"),
        "created_at": conversation.get("create_time"),
        "updated_at": conversation.get("update_time"),
    }
    yield RowDraft("session", _ORIGIN, place, session)
    branch = _follow_branch(mapping, conversation.get("current_node"))
    for node in branch:
        message = mapping[node].get("message")
        if not isinstance(message, dict):
            continue  # the root of the conversation
        if _is_shown(message):
            yield RowDraft("message", "mapping", f"{place} {node!r:.60}", _describe(session_id, node, message))
        else:
            yield LeftOut("mapping", "hidden from users, or without text")
    other_count = len(mapping) - len(branch)
    if other_count > 0:
        yield LeftOut("mapping", "not on the branch that the conversation ends with", other_count)


def _follow_branch(mapping: Mapping[str, Any], current: Any) -> list[str]:
    """Return the nodes from the first message to the current one. Stop at a node that was visited before."""
    node = current if isinstance(current, str) else None
    if node not in mapping:
        node = _find_last_leaf(mapping)
    branch: dict[str, None] = {}
    while node is not None and node not in branch and isinstance(mapping.get(node), dict):
        branch[node] = None
        parent = mapping[node].get("parent")
        node = parent if isinstance(parent, str) else None
    return list(reversed(branch))


def _find_last_leaf(mapping: Mapping[str, Any]) -> str | None:
    leaves = [name for name, node in mapping.items() if isinstance(node, dict) and not node.get("children")]
    return leaves[-1] if leaves else next(iter(mapping), None)


def _is_shown(message: Mapping[str, Any]) -> bool:
    """Return whether a message is visible to users. The export also has empty system messages and hidden contexts."""
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation"):
        return False
    return bool(_read_text(message).strip())


def _read_text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, dict):
        return content if isinstance(content, str) else ""
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(text for part in parts if (text := _read_part(part)))
    full_text = content.get("text") or content.get("result")
    return full_text if isinstance(full_text, str) else ""


def _read_part(part: Any) -> str:
    if isinstance(part, dict):
        text = part.get("text")
        return text if isinstance(text, str) and text else f"[{part.get('content_type') or 'attachment'}]"
    return part if isinstance(part, str) else ""


def _describe(session_id: Any, node: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a message from a node of the conversation."""
    author, metadata = (_find_object(message, name) for name in ("author", "metadata"))
    parts = message["content"].get("parts") if isinstance(message.get("content"), dict) else None
    has_objects = isinstance(parts, list) and any(isinstance(part, dict) for part in parts)
    return {
        "id": message.get("id") or node,
        "session": session_id,
        "role": author.get("role") or "user",
        "name": author.get("name"),
        "text": _read_text(message),
        "content": [part if isinstance(part, dict) else {"text": part} for part in parts or ()]
        if has_objects
        else None,
        "model": metadata.get("model_slug"),
        "created_at": message.get("create_time"),
    }


def _find_object(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name)
    return value if isinstance(value, dict) else {}


SOURCE = ImportSource(
    "chatgpt",
    "ChatGPT's export: conversations.json, its folder or zip archive",
    detect,
    read,
    find_members=find_export_files,
)
