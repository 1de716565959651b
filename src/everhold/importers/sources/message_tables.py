"""Read messages from a table: CSV with a header, or JSON lines, with columns for the speaker and the text.

Logs of models have a column for the prompt and one for the response instead. Such a row is two messages.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from everhold.importers.rows import FileRow, iterate_rows, list_sample_rows
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem
from everhold.importers.times import TimeReader

_COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("message_id", "id", "uuid", "msg_id"),
    "session": ("session_id", "session", "conversation_id", "thread_id", "chat_id", "conversation", "channel"),
    "user": ("user_id",),
    "role": ("role", "sender", "speaker", "author", "from", "sender_name", "name"),
    "text": ("content", "text", "message", "body", "message_text"),
    "prompt": ("prompt", "question", "query", "user_message", "user_input", "input", "instruction"),
    "response": ("response", "answer", "completion", "reply", "assistant_message", "bot_response", "output"),
    "created_at": ("timestamp", "created_at", "datetime", "ts", "sent_at", "create_time", "created", "time", "date"),
    "day": ("date", "day"),
    "clock": ("time",),
}
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "bot": "assistant",
          "agent": "assistant", "system": "system", "tool": "tool", "developer": "system"}  # fmt: skip
# Files up to this size are sorted by time. Larger files must be in order already.
_MAX_SORTED_BYTES = 24_000_000


def _find_columns(names: Mapping[str, Any]) -> dict[str, str]:
    """Return the column for each field of a message, recognised by names that other systems use."""
    by_name = {name.strip().lower().replace(" ", "_"): name for name in names}
    columns = {
        field: next((name for name in choices if name in by_name), "") for field, choices in _COLUMN_NAMES.items()
    }
    if columns["role"] and columns["text"]:
        columns |= {"prompt": "", "response": ""}
    # A date and a time in columns of their own are read together.
    is_split = columns["day"] and columns["clock"] and columns["created_at"] == columns["clock"]
    columns |= {"created_at": ""} if is_split else {"day": "", "clock": ""}
    return {field: by_name[name] for field, name in columns.items() if name}


def detect(sample: Sample) -> float:
    if sample.tables or sample.members:
        return 0.0
    rows = list_sample_rows(sample)
    columns = _find_columns(rows[0]) if rows else {}
    has_pairs = {"prompt", "response"} <= columns.keys()
    if not {"role", "text"} <= columns.keys() and not has_pairs:
        return 0.0
    if isinstance(sample.outline, list):
        # Messages for a model have no session, and their texts may be lists of parts. Another source reads them.
        is_plain = "session" in columns and isinstance(rows[0].get(columns.get("text", "")), str)
        return 0.87 if has_pairs or is_plain else 0.0
    is_json = isinstance(sample.outline, dict)
    is_named = sample.name.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson"))
    return 0.7 if is_named or (is_json and len(sample.lines) > 1) else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    files = import_input.files
    seen_sessions: set[str] = set()
    rows = iterate_rows(files)
    for row in _sort(rows, import_input) if files.find_size() <= _MAX_SORTED_BYTES else rows:
        if row.fields is None:
            yield BadRow("rows", row.place, row.reason, row.value)
            continue
        columns = _find_columns(row.fields)
        values = {field: row.fields.get(column) for field, column in columns.items()}
        values["created_at"] = _find_time(values)
        session = str(values.get("session") or files.path.stem)
        if session not in seen_sessions:
            seen_sessions.add(session)
            session_values = {"id": session, "user": values.get("user"), "created_at": values["created_at"]}
            yield RowDraft("session", "rows", row.place, session_values)
        other_fields = {name: value for name, value in row.fields.items() if name not in columns.values()}
        if "prompt" in columns or "response" in columns:
            yield from _read_pair(row.place, session, values, other_fields)
        else:
            yield RowDraft("message", "rows", row.place, _describe(session, values, other_fields))


def _find_time(values: Mapping[str, Any]) -> Any:
    if "day" in values:
        return f"{values['day'] or ''} {values.get('clock') or ''}".strip()
    return values.get("created_at")


def _read_pair(
    place: str, session: str, values: Mapping[str, Any], other_fields: Mapping[str, Any]
) -> Iterator[SourceItem]:
    """Yield the prompt and the response of a row. They have the same time, and the prompt comes first."""
    row_id = values.get("id")
    for field, role in (("prompt", "user"), ("response", "assistant")):
        if values.get(field) not in (None, ""):
            message_id = None if row_id in (None, "") else f"{row_id}/{field}"
            message = {**values, "id": message_id, "role": role, "text": values[field]}
            yield RowDraft("message", "rows", place, _describe(session, message, other_fields))


def _sort(rows: Iterator[FileRow], import_input: ImportInput) -> list[FileRow]:
    """Return the rows by session and time. Rows without a time, or with a wrong one, stay where they are."""
    row_list = list(rows)
    times = TimeReader(UTC, import_input.date_order)
    keys: list[tuple[str, str]] = []
    last_times: dict[str, str] = {}
    for row in row_list:
        columns = _find_columns(row.fields or {})
        values = {field: (row.fields or {}).get(column) for field, column in columns.items()}
        session = str(values.get("session") or "")
        last_times[session] = _find_sort_time(times, _find_time(values)) or last_times.get(session, "")
        keys.append((session, last_times[session]))
    return [row_list[index] for index in sorted(range(len(row_list)), key=lambda index: keys[index])]


def _find_sort_time(times: TimeReader, value: Any) -> str | None:
    try:
        moment = times.read(value)
    except ValueError:
        return None
    return None if moment is None else moment.isoformat()


def _describe(session: str, values: Mapping[str, Any], other_fields: Mapping[str, Any]) -> dict[str, Any]:
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
        "metadata": {name: value for name, value in other_fields.items() if value not in (None, "")} or None,
    }


SOURCE = ImportSource("message-table", "CSV, JSON lines or a JSON list of messages", detect, read)
