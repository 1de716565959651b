"""Read rows with the field names of the orchestrator's three migration tables, from any kind of file.

The old programs never wrote these names. They occur in exports that were made by hand according to the migration plan.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.rows import FileRow, iterate_rows, list_sample_rows
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem
from everhold.importers.values import describe, load_json

_SESSION_FIELDS = frozenset(("conversation_history", "session_data", "session_summary", "last_interaction"))
_CONTEXT_FIELDS = frozenset(("context_id", "context_data"))
_USER_FIELDS = frozenset(("entity_knowledge", "interaction_history", "skill_states"))
_TEXT_NAMES = ("content", "text", "message", "body")
_TIME_NAMES = ("timestamp", "created_at", "time", "at")


def detect(sample: Sample) -> float:
    fields = {name for row in list_sample_rows(sample) for name in row}
    marks = _SESSION_FIELDS | _CONTEXT_FIELDS | _USER_FIELDS
    return 0.92 if fields & marks and fields & {"session_id", "context_id", "user_id"} else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    for row in iterate_rows(opened.files):
        if row.fields is None:
            yield BadRow("rows", row.place, row.reason, row.value)
        elif _CONTEXT_FIELDS & row.fields.keys():
            yield _describe_context(row, row.fields)
        elif _USER_FIELDS & row.fields.keys() or ("preferences" in row.fields and "user_id" in row.fields):
            yield from _read_user(row, row.fields)
        elif _SESSION_FIELDS & row.fields.keys() or "session_id" in row.fields:
            yield from _read_session(row, row.fields)
        else:
            yield BadRow("rows", row.place, "the row has none of the names of the migration tables", row.fields)


def _read_session(row: FileRow, fields: Mapping[str, Any]) -> Iterator[SourceItem]:
    """Yield a session, and for each of its turns a message and a memory."""
    session_id = fields.get("session_id") or fields.get("_key")
    values = {
        "id": session_id,
        "user": fields.get("user_id"),
        "metadata": fields.get("session_data"),
        "summary": load_json(fields.get("session_summary")),
        "created_at": fields.get("created_at"),
        "updated_at": fields.get("last_interaction"),
    }
    yield RowDraft("session", "session_id", row.place, values)
    history = load_json(fields.get("conversation_history"))
    turns = history if isinstance(history, list) else [] if not history else [history]
    for index, turn in enumerate(turns):
        place = f"{row.place} conversation_history[{index}]"
        message = _describe_turn(turn, session_id, fields)
        yield RowDraft("message", "conversation_history", place, message)
        # The migration plan stores turns as memories, so that recall finds them by default.
        memory = {name: value for name, value in message.items() if name not in ("role", "name", "metadata")}
        speaker = message.get("name") or message.get("role")
        yield RowDraft("memory", "conversation_history", place, {**memory, "kind": "conversation", "speaker": speaker})


def _describe_turn(turn: Any, session_id: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    turn = load_json(turn)
    if not isinstance(turn, dict):
        return {"session": session_id, "user": fields.get("user_id"), "role": "user", "text": describe(turn)}
    text = next((turn[name] for name in _TEXT_NAMES if turn.get(name)), None)
    return {
        "session": session_id,
        "user": fields.get("user_id"),
        "role": str(turn.get("role") or turn.get("speaker") or "user"),
        "text": describe(text if text is not None else ""),
        "created_at": next((turn[name] for name in _TIME_NAMES if turn.get(name)), None),
        "metadata": turn.get("metadata"),
    }


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
    }
    return RowDraft("memory", "context_id", row.place, values)


def _read_user(row: FileRow, fields: Mapping[str, Any]) -> Iterator[SourceItem]:
    user = fields.get("user_id") or fields.get("_key")
    values = {"user": user, "preferences": fields.get("preferences"), "created_at": fields.get("created_at")}
    yield RowDraft("user", "user_id", row.place, values)
    for column, kind in (("entity_knowledge", "entity"), ("interaction_history", "interaction")):
        for name, value in _list_entries(load_json(fields.get(column))):
            yield RowDraft("memory", column, f"{row.place} {column} {name}", _describe_entry(user, kind, name, value))
    for skill, state in _list_entries(load_json(fields.get("skill_states"))):
        # A state belongs to an agent, not to a user, so the user becomes part of the agent's id.
        fields_of_state = {"agent": f"{user}/{skill}", "state": state}
        yield RowDraft("state", "skill_states", f"{row.place} skill_states {skill}", fields_of_state)


def _list_entries(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    items = value if isinstance(value, list) else []
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
        "created_at": next((content[key] for key in _TIME_NAMES if content.get(key)), None) if content else None,
    }


SOURCE = ImportSource("voice-mapping", "rows with the field names of the migration tables", detect, read)
