"""Read a stored message as a turn of a prompt, for the formats of content and tool calls of all known providers.

Messages are stored as callers passed them, in any format. So an item of unknown format becomes text and
raises no error.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from everhold.context.parts import CallPart, MediaPart, NativePart, Part, PromptTurn, ReturnPart, Role, TextPart
from everhold.model import Message
from everhold.schema.codec import encode_json

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_TEXT_TYPES = ("text", "input_text", "output_text", "refusal")
_IMAGE_TYPES = ("image", "image_url", "input_image")
_DOCUMENT_TYPES = ("document", "file", "input_file")
_CALL_TYPES = ("tool_use", "tool_call", "function_call", "function")
_RETURN_TYPES = ("tool_result", "function_call_output")
_ANTHROPIC_TYPES = ("thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result", "search_result")
_CALL_ID_NAMES = ("tool_call_id", "tool_use_id", "call_id", "id")
_RESULT_NAMES = ("content", "output", "result", "text")


def read_turn(message: Message, *, is_group: bool = False) -> PromptTurn:
    """Return a message as a turn. In a group, the speaker of a message without a name is its sender's or user's id.

    An unknown role becomes the role "user", with its name as the speaker.
    """
    role = _ROLES.get(message.role.lower(), "user")
    speaker = message.name or message.sender_id
    if role == "user" and speaker is None:
        known_id = message.user_id if is_group else None
        speaker = known_id if message.role.lower() in _ROLES else message.role
    if message.text and role != "tool" and not (message.content or message.tool_calls or message.tool_returns):
        return PromptTurn(role, (TextPart(message.text),), speaker, message.id)  # nearly every turn
    calls = [_read_call(item, f"{message.id}-{index}") for index, item in enumerate(message.tool_calls)]
    parts = (*_read_parts(message, role), *calls)
    if any(isinstance(part, CallPart) for part in parts):
        role = "assistant"  # providers accept calls only from an assistant
    return PromptTurn(role, parts, speaker if role != "tool" else None, message.id)


def _read_parts(message: Message, role: Role) -> list[Part]:
    """Return the parts of a message's text, content and tool returns."""
    items = message.content if isinstance(message.content, list) else [message.content]
    parts = [part for index, item in enumerate(items) for part in _read_item(item, f"{message.id}-content{index}")]
    # The text is left out if it repeats one text of the content or all of them, which callers store for search.
    texts = [text for part in parts for text in _list_texts(part)]
    if message.text and _remove_spaces(message.text) not in map(_remove_spaces, ["".join(texts), *texts]):
        parts.insert(0, TextPart(message.text))
    returns = [_read_return(item) for item in message.tool_returns]
    return [*parts, *returns] if role != "tool" else _join_returns(message.tool_call_id, parts, returns)


def _join_returns(call_id: str | None, parts: Sequence[Part], returns: Sequence[ReturnPart]) -> list[Part]:
    """Return the parts of a tool's message, with its text and content as the return of the call `call_id`."""
    result_parts = [part for part in parts if isinstance(part, TextPart | MediaPart)]
    other_parts = [part for part in parts if not isinstance(part, TextPart | MediaPart)]
    named_returns = [part for part in returns if part.call_id is not None]
    unnamed_returns = [part for part in returns if part.call_id is None]
    if call_id is not None and call_id in {part.call_id for part in named_returns}:
        return [*other_parts, *returns]
    result_parts += [item for part in unnamed_returns for item in part.parts]
    if not result_parts:
        return [*other_parts, *named_returns]
    return [
        *other_parts,
        ReturnPart(call_id, tuple(result_parts), any(part.is_error for part in unnamed_returns)),
        *named_returns,
    ]


def _read_item(item: Any, default_id: str) -> Iterable[Part]:
    """Return the parts of one item of a message's content. A call without an id gets `default_id`."""
    if isinstance(item, str):
        return [TextPart(item)] if item.strip() else []
    kind = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(kind, str):
        return _read_untyped(item, default_id)
    return _READERS.get(kind, _read_unknown)(item, default_id)


def _read_untyped(item: Any, default_id: str) -> Iterable[Part]:
    """Return the parts of an item without a type: its inner parts, or its text, or the whole item as JSON."""
    fields = item if isinstance(item, Mapping) else {}
    inner_items = fields.get("content") or fields.get("parts")
    if isinstance(inner_items, str | list):
        items = inner_items if isinstance(inner_items, list) else [inner_items]
        return [part for index, entry in enumerate(items) for part in _read_item(entry, f"{default_id}-{index}")]
    text = fields.get("text")
    return [TextPart(text if isinstance(text, str) and text.strip() else encode_json(item))]


def _read_text(item: Mapping[str, Any], _: str) -> Iterable[Part]:
    text = item.get("refusal" if item["type"] == "refusal" else "text")
    return [TextPart(text)] if isinstance(text, str) and text.strip() else []


def _read_unknown(item: Mapping[str, Any], _: str) -> Iterable[Part]:
    text = item.get("text")
    return [TextPart(text) if isinstance(text, str) and text.strip() else _make_placeholder(item)]


def _make_placeholder(item: Mapping[str, Any]) -> TextPart:
    """Return a text in place of an item that cannot be shown."""
    return TextPart(f"[{item['type']}]")


def _read_media(item: Mapping[str, Any]) -> MediaPart | None:
    """Return an image or a document; None without a URL and Base64 data, like a file stored at a provider."""
    kind: Literal["image", "document"] = "image" if item["type"] in _IMAGE_TYPES else "document"
    source = item.get("source") or item.get("image_url") or item.get("file") or item
    if isinstance(source, str):
        source = {"url": source}
    if not isinstance(source, Mapping):
        return None
    url, data = source.get("url") or source.get("file_url"), source.get("data") or source.get("file_data")
    media_type = source.get("media_type")
    if isinstance(url, str) and url.startswith("data:"):
        url, data = None, url
    if isinstance(data, str) and data.startswith("data:"):
        head, _, data = data.partition(",")
        media_type = head.removeprefix("data:").partition(";")[0]
    name = item.get("title") or source.get("filename")
    file_name = name if isinstance(name, str) else None
    detail = source.get("detail") if isinstance(source.get("detail"), str) else None
    if isinstance(url, str) and url:
        return MediaPart(kind, url=url, name=file_name, detail=detail)
    if not isinstance(data, str) or not data or not isinstance(media_type, str):
        return None
    return MediaPart(kind, media_type=media_type, data=data, name=file_name, detail=detail)


def _read_call(item: Any, default_id: str) -> CallPart:
    """Return a call of a tool. An item of unknown format becomes a call without a name, with the item as argument."""
    if not isinstance(item, Mapping):
        return CallPart(default_id, "", {"call": item})
    function = item.get("function")
    fields = function if isinstance(function, Mapping) else item
    call_id = _find_text(item, ("call_id", "tool_call_id", "id"))
    arguments: Any = next((fields[key] for key in ("arguments", "input", "args") if fields.get(key) is not None), {})
    return CallPart(call_id or default_id, _find_text(fields, ("name", "tool")) or "", arguments)


def _read_return(item: Any) -> ReturnPart:
    if not isinstance(item, Mapping):
        return ReturnPart(None, (TextPart(item if isinstance(item, str) else encode_json(item)),))
    result = next((item[key] for key in _RESULT_NAMES if item.get(key) is not None), None)
    if result is None:
        result = {key: value for key, value in item.items() if key not in (*_CALL_ID_NAMES, "type")}
    items = result if isinstance(result, list) else [result]
    parts = tuple(
        part for entry in items for part in _read_item(entry, "") if isinstance(part, TextPart | MediaPart)
    )  # fmt: skip
    is_error = item.get("is_error") is True or item.get("status") == "error"
    return ReturnPart(_find_text(item, _CALL_ID_NAMES), parts, is_error)


def _find_text(item: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next((value for name in names if isinstance(value := item.get(name), str) and value), None)


def _list_texts(part: Part) -> list[str]:
    inner_parts = part.parts if isinstance(part, ReturnPart) else [part]
    return [item.text for item in inner_parts if isinstance(item, TextPart)]


def _remove_spaces(text: str) -> str:
    return "".join(text.split())


_READERS: Mapping[str, Callable[[Mapping[str, Any], str], Iterable[Part]]] = {
    **dict.fromkeys(_TEXT_TYPES, _read_text),
    **dict.fromkeys(
        (*_IMAGE_TYPES, *_DOCUMENT_TYPES), lambda item, _: [_read_media(item) or TextPart(f"[{item['type']}]")]
    ),
    **dict.fromkeys(_CALL_TYPES, lambda item, default_id: [_read_call(item, default_id)]),
    **dict.fromkeys(_RETURN_TYPES, lambda item, _: [_read_return(item)]),
    **dict.fromkeys(_ANTHROPIC_TYPES, lambda item, _: [NativePart("anthropic", item)]),
    "input_audio": lambda item, _: [NativePart("openai", item)],
}
