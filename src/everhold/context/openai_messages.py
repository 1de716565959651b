"""Render the turns of a prompt as messages of OpenAI's chat completions."""

import re
from collections.abc import Sequence
from typing import Any

from everhold.context.parts import (
    CallPart,
    MediaPart,
    NativePart,
    Part,
    PromptTurn,
    ReturnPart,
    TextPart,
    encode_arguments,
)

Document = dict[str, Any]

# The characters that names of speakers and of tools must not contain, and the maximum length of both.
_NOT_IN_SPEAKERS = re.compile(r"[\s<|\\/>]+")
_NOT_IN_TOOLS = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME_LENGTH = 64


def render_openai(turns: Sequence[PromptTurn]) -> list[Document]:
    """Return the messages of a prompt. `turns` must be in the order of `arrange_turns`."""
    messages: list[Document] = []
    for turn in turns:
        if turn.role == "tool":
            messages += [_render_return(part) for part in turn.parts if isinstance(part, ReturnPart)]
        else:
            messages += _render_turn(turn)
    return messages


def clean_tool_name(name: str) -> str:
    """Return the name of a tool in a form that both providers accept."""
    return _NOT_IN_TOOLS.sub("_", name)[:_MAX_NAME_LENGTH] or "tool"


def _render_turn(turn: PromptTurn) -> list[Document]:
    content = [block for part in turn.parts if (block := _render_part(part, turn.role)) is not None]
    calls = [_render_call(call) for call in turn.calls]
    if not content and not calls:
        return []
    message: Document = {"role": turn.role, "content": _simplify(content)}
    if turn.speaker and turn.role in ("user", "assistant"):
        message["name"] = _NOT_IN_SPEAKERS.sub("_", turn.speaker)[:_MAX_NAME_LENGTH]
    if calls:
        message["tool_calls"] = calls
    return [message]


def _simplify(content: list[Document]) -> str | list[Document] | None:
    """Return a single text as a string, which every compatible server accepts, and other content as it is.

    Return None if there is no content.
    """
    if not content:
        return None
    if len(content) == 1 and content[0]["type"] == "text":
        text: str = content[0]["text"]
        return text
    return content


def _render_part(part: Part, role: str) -> Document | None:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case MediaPart() if role == "user":
            return _render_media(part)
        case MediaPart():
            return {"type": "text", "text": f"[{part.kind}]"}
        case NativePart(provider="openai") if role == "user":
            return dict(part.block)
    return None


def _render_media(part: MediaPart) -> Document:
    url = part.url or f"data:{part.media_type};base64,{part.data}"
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": url, **({"detail": part.detail} if part.detail else {})}}
    if part.data is None:
        return {"type": "text", "text": f"[document {url}]"}  # the API accepts a file only as data, not as a URL
    return {"type": "file", "file": {"filename": part.name or "document", "file_data": url}}


def _render_call(call: CallPart) -> Document:
    function = {"name": clean_tool_name(call.name), "arguments": encode_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _render_return(part: ReturnPart) -> Document:
    texts = [item.text if isinstance(item, TextPart) else f"[{item.kind}]" for item in part.parts]
    return {"role": "tool", "tool_call_id": part.call_id, "content": "\n".join(texts)}
