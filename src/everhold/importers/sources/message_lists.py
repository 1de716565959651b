"""Read lists of messages in the format of OpenAI and Anthropic.

A file is a list of messages, an object with "messages", or JSON lines of either.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everhold.importers.ids import hash_texts
from everhold.importers.rows import iterate_json_lines
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem

_FIELDS = ("name", "model", "tool_calls", "tool_call_id", "metadata", "id")
_TIMES = ("created_at", "timestamp", "created")


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and bool({"content", "tool_calls", "parts"} & value.keys())
    )


def _is_message_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_message(item) for item in value[:3])


def detect(sample: Sample) -> float:
    outline = sample.outline
    is_lines = len(sample.lines) > 1 and all(
        isinstance(line, dict) and _is_message_list(line.get("messages")) for line in sample.lines[:3]
    )
    if isinstance(outline, dict):
        return 0.9 if is_lines or _is_message_list(outline.get("messages")) else 0.0
    is_nested = isinstance(outline, list) and bool(outline) and _is_holder(outline[0])
    return 0.85 if is_lines or _is_message_list(outline) or is_nested else 0.0


def _is_holder(value: Any) -> bool:
    return _is_message_list(value) or (isinstance(value, dict) and _is_message_list(value.get("messages")))


def read(opened: ImportInput) -> Iterator[SourceItem]:
    head = opened.files.read_head().removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"[":
        yield from _read_array(opened)
        return
    first = next(iterate_json_lines(opened.files), None)
    if first is not None and first.fields is not None:  # the first line is a whole object
        for row in iterate_json_lines(opened.files):
            if row.fields is None:
                yield BadRow("lines", row.place, row.reason, row.value)
            else:
                yield from _read_conversation(opened, row.place, row.fields)
        return
    with opened.files.open_json() as stream:
        value = stream.read_value()
        stream.require_end()
    yield from _read_conversation(opened, "messages", value)


def _read_array(opened: ImportInput) -> Iterator[SourceItem]:
    """Yield a list of messages as one session, or a list of conversations as one session each."""
    session: str | None = None
    with opened.files.open_json() as stream:
        for index in stream.iterate_items():
            value, place = stream.read_value(), f"[{index}]"
            if _is_holder(value):
                yield from _read_conversation(opened, place, value)
                continue
            if not isinstance(value, dict):
                yield BadRow("messages", place, "the message is not an object", value, "message")
                continue
            if session is None:
                session = _make_session_id(opened, value)
                yield _begin_session(session, "messages", {}, opened)
            yield RowDraft("message", "messages", place, _describe(session, value))
        stream.require_end()


def _read_conversation(opened: ImportInput, place: str, value: Any) -> Iterator[SourceItem]:
    """Yield the session and the messages of one list of messages."""
    holder: Mapping[str, Any] = value if isinstance(value, dict) else {"messages": value}
    messages = holder.get("messages")
    if not isinstance(messages, list) or not messages:
        yield BadRow("messages", place, "there is no list of messages", value)
        return
    system = holder.get("system")  # in Anthropic's format, it is beside the messages
    turns: Sequence[Any] = [{"role": "system", "content": system}, *messages] if system else messages
    own = holder.get("session_id") or holder.get("conversation_id") or holder.get("id")
    session = str(own) if own else _make_session_id(opened, turns[0])
    yield _begin_session(session, place, holder, opened)
    for index, turn in enumerate(turns):
        at = f"{place} messages[{index}]"
        if isinstance(turn, dict):
            yield RowDraft("message", "messages", at, _describe(session, turn, holder.get("model")))
        else:
            yield BadRow("messages", at, "the message is not an object", turn, "message")


def _begin_session(session: str, place: str, holder: Mapping[str, Any], opened: ImportInput) -> RowDraft:
    values = {
        "id": session,
        "title": holder.get("title") or opened.files.path.stem,
        "user": holder.get("user_id") or None,
        "created_at": next((holder[name] for name in _TIMES if holder.get(name)), None),
        "metadata": holder.get("metadata"),
    }
    return RowDraft("session", "messages", place, values)


def _make_session_id(opened: ImportInput, first: Any) -> str:
    """Return an id made from the file's name and its first message, so that it stays the same if the file grows."""
    return f"{opened.files.path.stem}-{hash_texts(str(first))[:12]}"


def _describe(session: str, message: Mapping[str, Any], model: Any = None) -> dict[str, Any]:
    values = {name: message[name] for name in _FIELDS if message.get(name) is not None}
    content = message.get("content") if message.get("content") is not None else message.get("parts")
    key = "text" if isinstance(content, str) else "content"
    at = next((message[name] for name in _TIMES if message.get(name) is not None), None)
    return {"model": model, **values, "session": session, "role": message.get("role"), key: content, "created_at": at}


SOURCE = ImportSource("messages", "a list of OpenAI's or Anthropic's messages", detect, read)
