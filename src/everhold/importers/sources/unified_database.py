"""Read MemoryOrchestratorService's SQLite database, unified_memory.db: one table of memories.

The turns of sessions are among them. They become messages of their sessions, and stay memories.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.source import ImportInput, ImportSource, RowDraft, Sample, SourceItem, report_unread
from everhold.importers.sources.voice_turns import describe_turn
from everhold.importers.values import add_other_fields, load_json, read_tags
from everhold.ports.foreign_tables import ForeignTables

_LINKS = "memory_relationships"
_GROUPS, _MEMBERS = "context_groups", ("memory_context_groups", "memory_groups", "context_group_members")
# SessionMemoryAgent stored its sessions and turns here. A turn has the id of its session as parent.
_TURN, _SESSION = "interaction", "session"
_COLUMNS = ("memory_id", "content", "memory_type", "memory_tier", "importance", "created_at", "expires_at", "metadata",
            "tags", "relationships", "parent_id")  # fmt: skip


def detect(sample: Sample) -> float:
    return float(sample.has_tables(memories="memory_id content memory_type")) * 0.95


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_database() as tables:
        sessions = _find_sessions(tables)
        yield from _read_sessions(tables, sessions)
        yield from _read_turns(tables, sessions)
        groups = _collect_groups(tables)
        for row in tables.read_rows("memories", ("created_at", "memory_id")):
            values = _describe(row, _find_session(row, sessions))
            if tags := groups.get(str(row["memory_id"])):
                values["tags"] = [*read_tags(values["tags"])[0], *tags]
            yield RowDraft("memory", "memories", f"memory {row['memory_id']!r:.80}", values)
        for row in tables.read_rows("memories", ("created_at", "memory_id")):
            yield from _read_relationships(row, sessions)
        if _LINKS in tables.columns:
            for number, row in enumerate(tables.read_rows(_LINKS), 1):
                yield _describe_link(number, row)
        yield from report_unread(tables, "memories", _LINKS, _GROUPS, *_MEMBERS)


def _find_sessions(tables: ForeignTables) -> dict[str, str]:
    """Map each parent that turns may name to the id of its session.

    A parent is the id of a session, or of the memory that stands for the session.
    """
    sessions: dict[str, str] = {}
    for row in tables.read_rows("memories"):
        if row.get("memory_type") == _SESSION:
            memory_id = str(row["memory_id"])
            session_id = str(_read_metadata(row).get("session_id") or memory_id)
            sessions[memory_id] = sessions[session_id] = session_id
    memory_ids = {str(row["memory_id"]) for row in tables.read_rows("memories")}
    for row in tables.read_rows("memories"):
        parent = str(row.get("parent_id") or "")
        # A parent that is a memory, but no session, is what the interaction was derived from.
        if row.get("memory_type") == _TURN and parent and parent not in memory_ids:
            sessions.setdefault(parent, parent)
    return sessions


def _find_session(row: Mapping[str, Any], sessions: Mapping[str, str]) -> str | None:
    parent = str(row.get("parent_id") or "")
    session_id = _read_metadata(row).get("session_id")
    return sessions.get(parent) or (str(session_id) if session_id else None)


def _read_sessions(tables: ForeignTables, sessions: Mapping[str, str]) -> Iterator[SourceItem]:
    users: dict[str, Any] = {}
    for row in tables.read_rows("memories"):
        session, user = _find_session(row, sessions), _read_metadata(row).get("user_id")
        if session is not None and user:
            users.setdefault(session, user)
    declared: set[str] = set()
    for row in tables.read_rows("memories", ("created_at", "memory_id")):
        if row.get("memory_type") != _SESSION:
            continue
        session, content = sessions[str(row["memory_id"])], load_json(row.get("content"))
        declared.add(session)
        session_fields = content if isinstance(content, dict) else {}
        values = {
            "id": session,
            "user": session_fields.get("user_id") or _read_metadata(row).get("user_id") or users.get(session),
            "created_at": row.get("created_at"),
            "metadata": session_fields.get("metadata") or _read_metadata(row),
        }
        yield RowDraft("session", "memories", f"memory {row['memory_id']!r:.80}", values)
    for session in dict.fromkeys(sessions.values()):
        if session not in declared:
            yield RowDraft(
                "session", "parent_id", f"session {session!r:.80}", {"id": session, "user": users.get(session)}
            )


def _read_turns(tables: ForeignTables, sessions: Mapping[str, str]) -> Iterator[SourceItem]:
    """Yield the turns of sessions as messages. They are imported as memories too."""
    for row in tables.read_rows("memories", ("parent_id", "created_at", "memory_id")):
        session = _find_session(row, sessions)
        if row.get("memory_type") != _TURN or session is None:
            continue
        content = load_json(row.get("content"))
        turn = describe_turn(content if isinstance(content, dict) else {"content": content})
        metadata = _read_metadata(row)
        values = {
            **turn,
            "id": row["memory_id"],
            "session": session,
            "role": metadata.get("role") or turn["role"],
            "created_at": row.get("created_at") or turn.get("created_at"),
            "metadata": {name: value for name, value in metadata.items() if name not in ("role", "session_id")},
        }
        yield RowDraft("message", "memories", f"memory {row['memory_id']!r:.80}", values)


def _collect_groups(tables: ForeignTables) -> dict[str, list[str]]:
    """Return the names of the context groups of each memory."""
    members = next((name for name in _MEMBERS if name in tables.columns), None)
    if members is None or _GROUPS not in tables.columns:
        return {}
    names = {row.get("group_id") or row.get("id"): row.get("name") for row in tables.read_rows(_GROUPS)}
    groups: dict[str, list[str]] = defaultdict(list)
    for row in tables.read_rows(members):
        if name := names.get(row.get("group_id")):
            groups[str(row.get("memory_id"))].append(str(name))
    return groups


def _read_metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = load_json(row.get("metadata"))
    return metadata if isinstance(metadata, dict) else {}


def _describe(row: Mapping[str, Any], session: str | None) -> dict[str, Any]:
    content = load_json(row.get("content"))
    values = _read_metadata(row)
    parent = {"parent_id": row["parent_id"]} if row.get("parent_id") else {}
    return {
        "id": row["memory_id"],
        "user": values.get("user_id"),
        "session": session,
        "source_agent": values.get("agent_id") or values.get("source"),
        "kind": row.get("memory_type"),
        "content": content if isinstance(content, dict) else None,
        "text": None if isinstance(content, dict) else content,
        "importance": row.get("importance"),
        "created_at": row.get("created_at"),
        "expires_at": row.get("expires_at"),
        "tags": row.get("tags"),
        "level": row.get("memory_tier"),
        "metadata": {**add_other_fields(row.get("metadata"), row, _COLUMNS), **parent},
    }


def _read_relationships(row: Mapping[str, Any], sessions: Mapping[str, str]) -> Iterator[SourceItem]:
    place = f"memory {row['memory_id']!r:.80}"
    if row.get("parent_id") and str(row["parent_id"]) not in sessions:
        values = {"source": row["memory_id"], "target": row["parent_id"], "type": "derived_from"}
        yield RowDraft("relationship", "parent_id", place, values)
    relationships = load_json(row.get("relationships"))
    pairs: list[tuple[Any, Any]]
    if isinstance(relationships, dict):
        # {type: [ids]} or {id: type}
        lists = [(name, values) for name, values in relationships.items() if isinstance(values, list)]
        pairs = [(target, name) for name, values in lists for target in values]
        pairs += [(target, _read_type(kind)) for target, kind in relationships.items() if not isinstance(kind, list)]
    else:
        pairs = [_read_target_and_type(item) for item in (relationships if isinstance(relationships, list) else [])]
    for target, kind in pairs:
        values = {"source": row["memory_id"], "target": target, "type": kind}
        yield RowDraft("relationship", "relationships", place, values)


def _describe_link(number: int, row: Mapping[str, Any]) -> RowDraft:
    source, target = (row.get(f"{end}_id") or row.get(f"{end}_memory_id") for end in ("source", "target"))
    strength = {"strength": row["strength"]} if row.get("strength") is not None else None
    values = {"source": source, "target": target, "type": _read_type(row), "metadata": strength}
    return RowDraft("relationship", _LINKS, f"{_LINKS} row {number}", values)


def _read_type(value: Any) -> Any:
    """Return the type of a relationship, which is either the value itself or in an object."""
    return value.get("relationship_type") or value.get("type") if isinstance(value, Mapping) else value


def _read_target_and_type(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, dict):
        return item, "related_to"
    names = ("target_id", "target", "memory_id", "related_id", "id")
    target = next((item[name] for name in names if item.get(name)), None)
    return target, _read_type(item) or "related_to"


SOURCE = ImportSource("unified-database", "MemoryOrchestratorService's unified_memory.db", detect, read)
