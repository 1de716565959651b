"""Render the turns of a prompt as the system text and the messages of Anthropic's Messages API.

The API requires that users and assistants alternate, that a user begins, and that tool results come first in the
message after their calls. System texts are joined in one separate text, because among the messages they could not be
distinguished from a text that a user wrote.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from everhold.context.openai_messages import Document, clean_tool_name
from everhold.context.parts import CallPart, MediaPart, NativePart, Part, PromptTurn, ReturnPart, TextPart

_BEGINNING = "(the conversation begins)"
_CACHE = {"type": "ephemeral"}
_UNCACHEABLE_TYPES = ("thinking", "redacted_thinking")
_BRACKETS = str.maketrans("[]", "()")  # a name must not contain square brackets, because they enclose it


def render_anthropic(turns: Sequence[PromptTurn], *, cache: bool = False) -> dict[str, Any]:
    """Return the arguments of a call of the Messages API: `messages`, and `system` if there is a system text.

    With `cache`, two places are marked for caching: the end of the system text, and the last block before the recalled
    memories, because the next prompt repeats the blocks up to there.
    """
    system_texts = [
        part.text for turn in turns if turn.role == "system" for part in turn.parts if isinstance(part, TextPart)
    ]
    messages: list[Document] = []
    last_repeated: Document | None = None
    is_repeated = True
    for turn in turns:
        role = "assistant" if turn.role == "assistant" else "user"
        blocks = list(_render_blocks(turn)) if turn.role != "system" else []
        is_repeated = is_repeated and not turn.is_recalled
        if not blocks:
            continue
        if not messages and role == "assistant":
            messages.append({"role": "user", "content": [{"type": "text", "text": _BEGINNING}]})
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
        if is_repeated and blocks[-1]["type"] not in _UNCACHEABLE_TYPES:
            last_repeated = blocks[-1]
    if cache and last_repeated is not None:
        last_repeated["cache_control"] = dict(_CACHE)
    if not system_texts:
        return {"messages": messages}
    text = "\n\n".join(system_texts)
    marked_text = [{"type": "text", "text": text, "cache_control": dict(_CACHE)}]
    return {"system": marked_text if cache else text, "messages": messages}


def _render_blocks(turn: PromptTurn) -> Iterator[Document]:
    speaker = turn.speaker if turn.role == "user" else None
    for part in turn.parts:
        block = _render_part(part, turn.role)
        if block is None:
            continue
        if speaker and block["type"] == "text":
            block = {**block, "text": _name_speaker(block["text"], speaker)}
            speaker = None
        yield block


def _name_speaker(text: str, speaker: str) -> str:
    """Return the text with the speaker's name before it.

    Further lines are indented, so that a line cannot look like a text of a different speaker.
    """
    name = " ".join(speaker.split()).translate(_BRACKETS)
    return f"[{name}] " + "\n  ".join(text.splitlines())


def _render_part(part: Part, role: str) -> Document | None:
    """Return the block of a part for a message of this role; None if the part is left out."""
    match part:
        case TextPart(text) if text.strip():
            # The API refuses a prompt whose last text of an assistant ends with white space.
            block: Document = {"type": "text", "text": text.rstrip()}
        case MediaPart() if role == "assistant":
            block = {"type": "text", "text": f"[{part.kind}]"}
        case MediaPart():
            block = _render_media(part)
        case CallPart():
            block = {"type": "tool_use", "id": part.id, "name": clean_tool_name(part.name)}
            block["input"] = _read_arguments(part.arguments)
        case ReturnPart():
            block = _render_return(part)
        case NativePart(provider="anthropic") if _is_accepted(part, role):
            block = {key: value for key, value in part.block.items() if key != "cache_control"}
        case _:
            return None
    return block


def _is_accepted(part: NativePart, role: str) -> bool:
    """Return whether the API accepts this block, which it produced itself, in this role.

    Thinking is accepted only with a signature.
    """
    if part.block["type"] == "search_result":
        return role == "user"
    return role == "assistant" and (part.block["type"] != "thinking" or bool(part.block.get("signature")))


def _render_media(part: MediaPart) -> Document:
    if part.data is None:
        source = {"type": "url", "url": part.url}
    else:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    title = {"title": part.name} if part.name and part.kind == "document" else {}
    return {"type": part.kind, "source": source, **title}


def _render_return(part: ReturnPart) -> Document:
    content = [block for item in part.parts if (block := _render_part(item, "tool")) is not None]
    error = {"is_error": True} if part.is_error else {}
    return {"type": "tool_result", "tool_use_id": part.call_id, **({"content": content} if content else {}), **error}


def _read_arguments(arguments: Any) -> dict[str, Any]:
    """Return the arguments as an object, because the API accepts nothing else."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}
