"""Sort the messages of each session by time, because a session takes no message older than its last one."""

from collections.abc import Iterator

from everhold.importers.records import Record
from everhold.importers.source import BadRow

# The most messages that are sorted at once, and the most characters in them. Longer sessions are sorted in parts.
_MAX_MESSAGES, _MAX_CHARACTERS = 5_000, 8_000_000


def sort_messages(records: Iterator[Record | BadRow]) -> Iterator[Record | BadRow]:
    """Yield the records with neighbouring messages of one session in the order of their times."""
    messages: list[Record] = []
    size = 0
    for record in records:
        if isinstance(record, BadRow):
            yield record
            continue
        is_full = len(messages) == _MAX_MESSAGES or size > _MAX_CHARACTERS
        if messages and (is_full or not _is_same_session(record, messages[0])):
            yield from _sort(messages)
            messages, size = [], 0
        if record.kind == "message":
            messages.append(record)
            size += len(record.values.get("text") or "")
        else:
            yield record
    yield from _sort(messages)


def _is_same_session(record: Record, message: Record) -> bool:
    return record.kind == "message" and record.values["session"] == message.values["session"]


def _sort(messages: list[Record]) -> list[Record]:
    return sorted(messages, key=lambda message: message.values["created_at"])
