"""Lists of messages as OpenAI, Anthropic and Gemini take them: a list, an object with one, or one such per line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everhold.importers.ids import hash_texts
from everhold.importers.rows import iterate_json_lines
from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.sources.message_shapes import (
    RESPONSE_CALLS,
    UNSAID,
    describe_message,
    find_conversation,
    is_message,
)

_TIMES = ("created_at", "timestamp", "created", "create_time")


NO_HOLDER: Mapping[str, Any] = {}


def _is_message_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(is_message(item) for item in value[:3])


def _is_holder(value: Any) -> bool:
    if not isinstance(value, dict):
        return _is_message_list(value)
    return _is_message_list(find_conversation(value).get("messages"))


def detect(sample: Sample) -> float:
    outline = sample.outline
    if len(sample.lines) > 1:
        if all(_is_holder(line) for line in sample.lines[:3]):
            return 0.9
        # Each line a turn. Plain turns are a table; those with parts or calls are not.
        turns = [line for line in sample.lines if isinstance(line, dict)]
        has_calls = any(line.get("type") in RESPONSE_CALLS or isinstance(line.get("content"), list) for line in turns)
        return 0.75 if has_calls and _is_message_list(turns) else 0.0
    if isinstance(outline, dict):
        return 0.9 if _is_holder(outline) else 0.0
    is_nested = isinstance(outline, list) and bool(outline) and _is_holder(outline[0])
    return 0.85 if _is_message_list(outline) or is_nested else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    head = opened.files.read_head().removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"[":
        yield from _read_array(opened)
        return
    first = next(iterate_json_lines(opened.files), None)
    if first is not None and first.fields is not None:  # the first line is a whole object
        yield from _read_lines(opened, is_list_of_turns=is_message(first.fields))
        return
    with opened.files.open_json() as stream:
        value = stream.read_value()
        stream.require_end()
    yield from _read_conversation(opened, "messages", value)


def _read_lines(opened: ImportInput, *, is_list_of_turns: bool) -> Iterator[SourceItem]:
    """Yield each line as a conversation, or as a turn of one."""
    session: str | None = None
    for row in iterate_json_lines(opened.files):
        if row.fields is None:
            yield BadRow("lines", row.place, row.reason, row.value)
        elif not is_list_of_turns:
            yield from _read_conversation(opened, row.place, row.fields)
        else:
            if session is None:
                session = _make_session_id(opened, row.fields)
                yield _begin_session(session, "messages", {}, opened)
            yield _draft_message(session, row.place, row.fields)


def _read_array(opened: ImportInput) -> Iterator[SourceItem]:
    """Yield a list of messages as one session, or a list of conversations as one session each."""
    session: str | None = None
    with opened.files.open_json() as stream:
        for index in stream.iterate_items():
            value, place = stream.read_value(), f"[{index}]"
            if not is_message(value) and _is_holder(value):
                yield from _read_conversation(opened, place, value)
                continue
            if not isinstance(value, dict):
                yield BadRow("messages", place, "the message is not an object", value, "message")
                continue
            if session is None:
                session = _make_session_id(opened, value)
                yield _begin_session(session, "messages", {}, opened)
            yield _draft_message(session, place, value)
        stream.require_end()


def _read_conversation(opened: ImportInput, place: str, value: Any) -> Iterator[SourceItem]:
    holder = find_conversation(value) if isinstance(value, dict) else {"messages": value}
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
        yield _draft_message(session, f"{place} messages[{index}]", turn, holder)


def _draft_message(session: str, place: str, turn: Any, holder: Mapping[str, Any] = NO_HOLDER) -> SourceItem:
    if not isinstance(turn, dict):
        return BadRow("messages", place, "the message is not an object", turn, "message")
    if turn.get("type") in UNSAID:
        return LeftOut("messages", f"items of type {turn['type']} are not messages")
    at = _find_time(turn) or _find_time(holder)
    values = {"model": holder.get("model"), **describe_message(turn), "session": session, "created_at": at}
    return RowDraft("message", "messages", place, values)


def _find_time(values: Mapping[str, Any]) -> Any:
    return next((values[name] for name in _TIMES if values.get(name)), None)


def _begin_session(session: str, place: str, holder: Mapping[str, Any], opened: ImportInput) -> RowDraft:
    values = {
        "id": session,
        "title": holder.get("title") or opened.files.path.stem,
        "user": holder.get("user_id") or None,
        "created_at": _find_time(holder),
        "metadata": holder.get("metadata"),
    }
    return RowDraft("session", "messages", place, values)


def _make_session_id(opened: ImportInput, first: Any) -> str:
    """Return an id made from the file's name and its first message, so that it stays the same if the file grows."""
    return f"{opened.files.path.stem}-{hash_texts(str(first))[:12]}"


SOURCE = ImportSource("messages", "a list of messages of OpenAI, Anthropic or Gemini", detect, read)
