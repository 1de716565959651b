"""Read rows with the field names of the orchestrator's three migration tables, from any kind of file.

The old programs never wrote these names. They occur in exports that were made by hand according to the migration plan.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.rows import FileRow, iterate_rows, list_sample_rows
from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.sources.voice_turns import TIME_NAMES, describe_turn, list_turns
from everhold.importers.values import add_other_fields, describe, load_json

_SESSION_FIELDS = frozenset(("conversation_history", "session_data", "session_summary", "last_interaction"))
_CONTEXT_FIELDS = frozenset(("context_id", "context_data"))
_USER_FIELDS = frozenset(("entity_knowledge", "interaction_history", "skill_states"))
_TYPICAL_FIELDS = _SESSION_FIELDS | _CONTEXT_FIELDS | _USER_FIELDS
_ID_FIELDS = frozenset(("session_id", "context_id", "user_id"))
_OTHER_FIELDS = {
    "_key",
    "created_at",
    "expires_at",
    "preferences",
    "embedding",
    "embedding_model",
    "source_agent",
    "tags",
}
_KNOWN_FIELDS = _TYPICAL_FIELDS | _ID_FIELDS | _OTHER_FIELDS
# Files up to this size are put in order: sessions first, and the messages of a session together.
_MAX_SORTED_BYTES = 24_000_000
_ORDER = {"user": 0, "session": 1, "message": 2}


def detect(sample: Sample) -> float:
    fields = [_normalize(row).keys() for row in list_sample_rows(sample)]
    if any(len(names & _TYPICAL_FIELDS) >= 2 or (names & _TYPICAL_FIELDS and names & _ID_FIELDS) for names in fields):
        return 0.92
    # Users without anything but preferences. Profiles of other programs have a name, or reminders.
    is_user = bool(fields) and all({"user_id", "preferences"} <= names <= _KNOWN_FIELDS for names in fields)
    return 0.6 if is_user else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    items = _read_rows(import_input)
    if import_input.files.find_size() > _MAX_SORTED_BYTES:
        yield from items
        return
    sessions: dict[Any, RowDraft] = {}
    other_items: list[SourceItem] = []
    for item in items:
        if not isinstance(item, RowDraft) or item.kind != "session":
            other_items.append(item)
            continue
        # Several rows may be about one session, each with a part of it.
        earlier_draft = sessions.setdefault(item.fields["id"], item)
        earlier_fields = {name: value for name, value in earlier_draft.fields.items() if value not in (None, "", {})}
        sessions[item.fields["id"]] = earlier_draft._replace(fields={**item.fields, **earlier_fields})
    yield from sorted([*sessions.values(), *other_items], key=_make_sort_key)


def _normalize(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the names of the tables, which a spreadsheet may have changed: "Context ID"."""
    names = {name: name.strip().lower().replace(" ", "_") for name in row}
    return {names[name] if names[name] in _KNOWN_FIELDS else name: value for name, value in row.items()}


def _make_sort_key(item: SourceItem) -> tuple[int, str]:
    if not isinstance(item, RowDraft):
        return len(_ORDER), ""
    return _ORDER.get(item.kind, len(_ORDER)), str(item.fields["session"]) if item.kind == "message" else ""


def _read_rows(import_input: ImportInput) -> Iterator[SourceItem]:
    for raw_row in iterate_rows(import_input.files, _KNOWN_FIELDS - {"_key"}):
        row = raw_row._replace(fields=None if raw_row.fields is None else _normalize(raw_row.fields))
        names = row.fields.keys() if row.fields is not None else frozenset()
        if row.fields is None:
            yield BadRow("rows", row.place, row.reason, row.value)
        elif _CONTEXT_FIELDS & names:
            yield _describe_context(row, row.fields)
        elif _USER_FIELDS & names or {"preferences", "user_id"} <= names:
            yield from _read_user(row, row.fields)
        elif _SESSION_FIELDS & names or "session_id" in names:
            yield from _read_session(row, row.fields)
        elif import_input.files.is_database():
            yield LeftOut(row.table, "the table has none of the names of the migration tables")
        else:
            yield BadRow("rows", row.place, "the row has none of the names of the migration tables", row.fields)


def _read_session(row: FileRow, fields: Mapping[str, Any]) -> Iterator[SourceItem]:
    """Yield a session, and for each of its turns a message and a memory."""
    session_id = fields.get("session_id") or fields.get("_key")
    values = {
        "id": session_id,
        "user": fields.get("user_id"),
        "metadata": add_other_fields(fields.get("session_data"), fields, _KNOWN_FIELDS),
        "summary": load_json(fields.get("session_summary")),
        "created_at": fields.get("created_at"),
        "updated_at": fields.get("last_interaction"),
    }
    yield RowDraft("session", "session_id", row.place, values)
    for index, turn in enumerate(list_turns(fields.get("conversation_history"))):
        place = f"{row.place} conversation_history[{index}]"
        message = {**describe_turn(turn), "session": session_id, "user": fields.get("user_id")}
        # A number is unique in one session only.
        message["id"] = f"{session_id}/{message['id']}" if message.get("id") is not None else None
        yield RowDraft("message", "conversation_history", place, message)
        # The plan makes memories of turns, so that recall finds them without being asked for messages.
        memory = {name: value for name, value in message.items() if name not in ("role", "metadata")}
        draft = {**memory, "kind": "conversation", "speaker": message.get("role")}
        yield RowDraft("memory", "conversation_history", place, draft)


def _describe_context(row: FileRow, fields: Mapping[str, Any]) -> RowDraft:
    """Return a memory from the fields of a stored context."""
    content = load_json(fields.get("context_data"))
    values = {
        "id": fields.get("context_id") or fields.get("_key"),
        "session": fields.get("session_id"),
        "user": fields.get("user_id"),
        "kind": "context",
        "content": content if isinstance(content, dict) else None,
        "text": describe(content) if content is not None else None,
        "vector": fields.get("embedding"),
        "vector_model": fields.get("embedding_model"),
        "created_at": fields.get("created_at"),
        "expires_at": fields.get("expires_at"),
        "source_agent": fields.get("source_agent"),
        "tags": fields.get("tags"),
        "metadata": add_other_fields(fields.get("metadata"), fields, {*_KNOWN_FIELDS, "metadata"}),
    }
    return RowDraft("memory", "context_id", row.place, values)


def _read_user(row: FileRow, fields: Mapping[str, Any]) -> Iterator[SourceItem]:
    user = fields.get("user_id") or fields.get("_key")
    values = {
        "user": user,
        "preferences": fields.get("preferences"),
        "created_at": fields.get("created_at"),
        "metadata": add_other_fields(None, fields, _KNOWN_FIELDS) or None,
    }
    yield RowDraft("user", "user_id", row.place, values)
    for column, kind in (("entity_knowledge", "entity"), ("interaction_history", "interaction")):
        for name, value in _list_entries(load_json(fields.get(column))):
            yield RowDraft("memory", column, f"{row.place} {column} {name}", _describe_entry(user, kind, name, value))
    for skill, state in _list_entries(load_json(fields.get("skill_states"))):
        # A state belongs to an agent, not to a user, so the user becomes part of the agent's id.
        state_values = {"agent": f"{user}/{skill}", "state": state}
        yield RowDraft("state", "skill_states", f"{row.place} skill_states {skill}", state_values)


def _list_entries(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    items = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return [(_find_name(item) or f"[{index}]", item) for index, item in enumerate(items)]


def _find_name(item: Any) -> str | None:
    names = (item.get(key) for key in ("name", "entity", "skill", "agent_id")) if isinstance(item, dict) else ()
    return next((name for name in names if isinstance(name, str) and name), None)


def _describe_entry(user: Any, kind: str, name: str, value: Any) -> dict[str, Any]:
    content = value if isinstance(value, dict) else None
    is_named = not name.startswith("[")
    text = describe(value)
    return {
        "user": user,
        "kind": kind,
        "content": {"name": name, **content} if content is not None and is_named else content,
        "text": f"{name}: {text}" if is_named and text else text,
        "created_at": next((content[key] for key in TIME_NAMES if content.get(key)), None) if content else None,
    }


SOURCE = ImportSource("voice-mapping", "rows with the field names of the migration tables", detect, read)
