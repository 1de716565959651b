"""Read Claude's data export: conversations.json, alone or in its folder or zip archive."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from everhold.importers.files import ForeignFiles
from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.sources.exports import find_export_files, find_first_conversation, iterate_conversations
from everhold.importers.values import list_objects

_ORIGIN = "conversations"
_MEMORIES = "memories.json"
_UNREAD = ("projects.json", "users.json")
_ROLES = {"human": "user"}


def detect(sample: Sample) -> float:
    first_conversation = find_first_conversation(sample)
    return (
        0.95
        if first_conversation is not None
        and "uuid" in first_conversation
        and isinstance(first_conversation.get("chat_messages"), list)
        else 0.0
    )


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    yield from _read_memories(import_input.files)
    for place, conversation in iterate_conversations(import_input.files):
        if not isinstance(conversation, dict) or not isinstance(conversation.get("chat_messages"), list):
            yield BadRow(_ORIGIN, place, "the conversation has no list of messages", conversation)
            continue
        session_id = conversation.get("uuid")
        session = {
            "id": session_id,
            "title": conversation.get("name") or None,
            "summary": conversation.get("summary") or None,
            "created_at": conversation.get("created_at"),
            "updated_at": conversation.get("updated_at"),
        }
        yield RowDraft("session", _ORIGIN, place, session)
        for index, message in enumerate(conversation["chat_messages"]):
            message_place = f"{place} chat_messages[{index}]"
            if isinstance(message, dict):
                yield RowDraft("message", "chat_messages", message_place, _describe(session_id, message))
            else:
                yield BadRow("chat_messages", message_place, "the message is not an object", message, "message")


def _read_memories(files: ForeignFiles) -> Iterator[SourceItem]:
    """Yield the memories that Claude has stored about the user, and the number of files that are not read."""
    for member in files.members:
        name = PurePath(member).name
        if name == _MEMORIES:
            with files.open_json(member) as stream:
                for index in stream.iterate_items():
                    yield from _describe_memories(f"{member}[{index}]", stream.read_value())
                stream.require_end()
        elif name in _UNREAD:
            yield LeftOut("files", f"{name} is not a conversation")


def _describe_memories(place: str, row: Any) -> Iterator[SourceItem]:
    if not isinstance(row, dict):
        yield BadRow(_MEMORIES, place, "the memories are not an object", row, "memory")
        return
    projects = row.get("project_memories")
    texts = {"": row.get("conversations_memory"), **(projects if isinstance(projects, dict) else {})}
    for project, text in texts.items():
        if isinstance(text, str) and text.strip():
            metadata = {"project": project} if project else None
            yield RowDraft("memory", _MEMORIES, place, {"text": text, "kind": "core", "metadata": metadata})


def _describe(session_id: Any, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a message from a row of Claude's export."""
    sender = str(message.get("sender") or message.get("role") or "human")
    content = message.get("content")
    attachments = [
        {"file_name": item.get("file_name"), "text": item.get("extracted_content")}
        for name in ("attachments", "files")
        for item in list_objects(message, name)
    ]
    # A long pasted text becomes an attachment, and the message itself may be empty.
    pasted = "\n\n".join(str(item["text"]) for item in attachments if item["text"])
    text = message.get("text") or pasted or None
    return {
        "id": message.get("uuid"),
        "session": session_id,
        "role": _ROLES.get(sender, sender),
        "text": text,
        "content": content if isinstance(content, list) and content and (text is None or len(content) > 1) else None,
        "created_at": message.get("created_at"),
        "metadata": {"attachments": attachments} if attachments else None,
    }


def _find_members(sample: Sample) -> list[str]:
    other_members = [member for member in sample.members if PurePath(member).name in (_MEMORIES, *_UNREAD)]
    return [*find_export_files(sample), *other_members]


SOURCE = ImportSource(
    "claude", "Claude's export: conversations.json, its folder or zip archive", detect, read, find_members=_find_members
)
