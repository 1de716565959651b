"""Read a table of messages: CSV with a header, or JSON lines, with a column for speakers and one for texts."""

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from everhold.importers.rows import FileRow, iterate_csv, iterate_json_lines, list_sample_rows
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem
from everhold.importers.times import parse_time

_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("message_id", "id", "uuid", "msg_id"),
    "session": ("session_id", "session", "conversation_id", "thread_id", "chat_id", "conversation", "channel"),
    "user": ("user_id",),
    "role": ("role", "sender", "speaker", "author", "from", "sender_name", "name"),
    "text": ("content", "text", "message", "body", "message_text"),
    "created_at": ("timestamp", "created_at", "time", "date", "datetime", "ts", "sent_at", "create_time"),
}
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "bot": "assistant",
          "agent": "assistant", "system": "system", "tool": "tool", "developer": "system"}  # fmt: skip
# Files up to this size are sorted by time. Larger files must be in order already.
_MAX_SORTED_BYTES = 24_000_000


def _find_columns(names: Mapping[str, Any]) -> dict[str, str]:
    """Return the column for each field of a message, recognised by names that other systems use."""
    by_name = {name.strip().lower().replace(" ", "_"): name for name in names}
    columns = {field: next((name for name in choices if name in by_name), "") for field, choices in _NAMES.items()}
    return {field: by_name[name] for field, name in columns.items() if name}


def detect(sample: Sample) -> float:
    if sample.tables or sample.members or (isinstance(sample.outline, list)):
        return 0.0
    rows = list_sample_rows(sample)
    columns = _find_columns(rows[0]) if rows else {}
    if not {"role", "text"} <= columns.keys():
        return 0.0
    is_json = isinstance(sample.outline, dict)
    is_named = sample.name.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson"))
    return 0.7 if is_named or (is_json and len(sample.lines) > 1) else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    files = opened.files
    is_json = files.read_head().removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    rows = iterate_json_lines(files) if is_json else iterate_csv(files)
    began: set[str] = set()
    for row in _sort(rows) if files.path.stat().st_size <= _MAX_SORTED_BYTES else rows:
        if row.fields is None:
            yield BadRow("rows", row.place, row.reason, row.value)
            continue
        columns = _find_columns(row.fields)
        values = {field: row.fields.get(column) for field, column in columns.items()}
        session = str(values.get("session") or files.path.stem)
        if session not in began:
            began.add(session)
            start = {"id": session, "user": values.get("user"), "created_at": values.get("created_at")}
            yield RowDraft("session", "rows", row.place, start)
        others = {name: value for name, value in row.fields.items() if name not in columns.values()}
        yield RowDraft("message", "rows", row.place, _describe(session, values, others))


def _sort(rows: Iterator[FileRow]) -> list[FileRow]:
    """Return the rows sorted by session and time. Rows without a valid time stay after the row before them."""
    listed = list(rows)
    keys: list[tuple[str, str]] = []
    last: dict[str, str] = {}
    for row in listed:
        columns = _find_columns(row.fields or {})
        session = str((row.fields or {}).get(columns.get("session", ""), ""))
        last[session] = _find_sort_time(row, columns) or last.get(session, "")
        keys.append((session, last[session]))
    return [listed[index] for index in sorted(range(len(listed)), key=lambda index: keys[index])]


def _find_sort_time(row: FileRow, columns: Mapping[str, str]) -> str | None:
    try:
        moment = parse_time((row.fields or {}).get(columns.get("created_at", "")), UTC)
    except ValueError:
        return None
    return None if moment is None else moment.isoformat()


def _describe(session: str, values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    speaker = str(values.get("role") or "user")
    is_role = speaker.strip().lower() in _ROLES
    return {
        "id": f"{session}/{values['id']}" if values.get("id") not in (None, "") else None,
        "session": session,
        "user": values.get("user"),
        "role": _ROLES[speaker.strip().lower()] if is_role else "user",
        "name": None if is_role else speaker,
        "text": values.get("text"),
        "created_at": values.get("created_at"),
        "metadata": {name: value for name, value in others.items() if value not in (None, "")} or None,
    }


SOURCE = ImportSource("message-table", "CSV or JSON lines of messages", detect, read)
