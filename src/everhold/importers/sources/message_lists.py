"""Read messages as OpenAI, Anthropic and Gemini take them: a list, an object with a list, or one of these per line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everhold.importers.ids import hash_texts
from everhold.importers.rows import iterate_json_lines
from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.sources.message_shapes import (
    RESPONSE_CALLS,
    UNSPOKEN_TYPES,
    describe_message,
    find_conversation,
    is_message,
)

_TIMES = ("created_at", "timestamp", "created", "create_time")


_NO_CONVERSATION: Mapping[str, Any] = {}


def _is_message_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(is_message(item) for item in value[:3])


def _is_conversation(value: Any) -> bool:
    if not isinstance(value, dict):
        return _is_message_list(value)
    return _is_message_list(find_conversation(value).get("messages"))


def detect(sample: Sample) -> float:
    outline = sample.outline
    if len(sample.lines) > 1:
        if all(_is_conversation(line) for line in sample.lines[:3]):
            return 0.9
        # Each line is a turn. Turns without parts and calls are read as a table, by another source.
        turns = [line for line in sample.lines if isinstance(line, dict)]
        has_calls = any(line.get("type") in RESPONSE_CALLS or isinstance(line.get("content"), list) for line in turns)
        return 0.75 if has_calls and _is_message_list(turns) else 0.0
    if isinstance(outline, dict):
        return 0.9 if _is_conversation(outline) else 0.0
    is_nested = isinstance(outline, list) and bool(outline) and _is_conversation(outline[0])
    return 0.85 if _is_message_list(outline) or is_nested else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    head = import_input.files.read_head().removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"[":
        yield from _read_array(import_input)
        return
    first_row = next(iterate_json_lines(import_input.files), None)
    if first_row is not None and first_row.fields is not None:  # the first line is a whole object
        yield from _read_lines(import_input, is_list_of_turns=is_message(first_row.fields))
        return
    with import_input.files.open_json() as stream:
        value = stream.read_value()
        stream.require_end()
    yield from _read_conversation(import_input, "messages", value)


def _read_lines(import_input: ImportInput, *, is_list_of_turns: bool) -> Iterator[SourceItem]:
    """Yield each line as a conversation, or as a turn of one."""
    session: str | None = None
    for row in iterate_json_lines(import_input.files):
        if row.fields is None:
            yield BadRow("lines", row.place, row.reason, row.value)
        elif not is_list_of_turns:
            yield from _read_conversation(import_input, row.place, row.fields)
        else:
            if session is None:
                session = _make_session_id(import_input, row.fields)
                yield _begin_session(session, "messages", {}, import_input)
            yield _draft_message(session, row.place, row.fields)


def _read_array(import_input: ImportInput) -> Iterator[SourceItem]:
    """Yield a list of messages as one session, or a list of conversations as one session each."""
    session: str | None = None
    with import_input.files.open_json() as stream:
        for index in stream.iterate_items():
            value, place = stream.read_value(), f"[{index}]"
            if not is_message(value) and _is_conversation(value):
                yield from _read_conversation(import_input, place, value)
                continue
            if not isinstance(value, dict):
                yield BadRow("messages", place, "the message is not an object", value, "message")
                continue
            if session is None:
                session = _make_session_id(import_input, value)
                yield _begin_session(session, "messages", {}, import_input)
            yield _draft_message(session, place, value)
        stream.require_end()


def _read_conversation(import_input: ImportInput, place: str, value: Any) -> Iterator[SourceItem]:
    conversation = find_conversation(value) if isinstance(value, dict) else {"messages": value}
    messages = conversation.get("messages")
    if not isinstance(messages, list) or not messages:
        yield BadRow("messages", place, "there is no list of messages", value)
        return
    system = conversation.get("system")  # in Anthropic's format, it is beside the messages
    turns: Sequence[Any] = [{"role": "system", "content": system}, *messages] if system else messages
    given_id = conversation.get("session_id") or conversation.get("conversation_id") or conversation.get("id")
    session = str(given_id) if given_id else _make_session_id(import_input, turns[0])
    yield _begin_session(session, place, conversation, import_input)
    for index, turn in enumerate(turns):
        yield _draft_message(session, f"{place} messages[{index}]", turn, conversation)


def _draft_message(
    session: str, place: str, turn: Any, conversation: Mapping[str, Any] = _NO_CONVERSATION
) -> SourceItem:
    if not isinstance(turn, dict):
        return BadRow("messages", place, "the message is not an object", turn, "message")
    if turn.get("type") in UNSPOKEN_TYPES:
        return LeftOut("messages", f"items of type {turn['type']} are not messages")
    created_at = _find_time(turn) or _find_time(conversation)
    values = {
        "model": conversation.get("model"),
        **describe_message(turn),
        "session": session,
        "created_at": created_at,
    }
    return RowDraft("message", "messages", place, values)


def _find_time(values: Mapping[str, Any]) -> Any:
    return next((values[name] for name in _TIMES if values.get(name)), None)


def _begin_session(session: str, place: str, conversation: Mapping[str, Any], import_input: ImportInput) -> RowDraft:
    values = {
        "id": session,
        "title": conversation.get("title") or import_input.files.path.stem,
        "user": conversation.get("user_id") or None,
        "created_at": _find_time(conversation),
        "metadata": conversation.get("metadata"),
    }
    return RowDraft("session", "messages", place, values)


def _make_session_id(import_input: ImportInput, first: Any) -> str:
    """Return an id made from the file's name and its first message, so that it stays the same if the file grows."""
    return f"{import_input.files.path.stem}-{hash_texts(str(first))[:12]}"


SOURCE = ImportSource("messages", "a list of messages of OpenAI, Anthropic or Gemini", detect, read)
