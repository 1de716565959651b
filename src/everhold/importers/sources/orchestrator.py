"""Read the memory orchestrator's tables.

They are in a SQLite database, a dump of PostgreSQL, a JSON object with a list per table, or files of one table each, as
CSV, JSON or JSON lines. A folder may hold the files of several tables.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.postgres_dumps import list_dumped_tables
from everhold.importers.rows import list_sample_rows, list_table_files, open_tables
from everhold.importers.samples import take_sample
from everhold.importers.source import ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem, report_unread
from everhold.importers.values import add_other_fields, load_json
from everhold.ports.foreign_tables import ForeignTables

# The columns that identify a table. Those of a file with one table are compared in this order.
_COLUMNS = {
    "memory_entries": {"memory_id", "memory_type", "content"},
    "vector_embeddings": {"memory_id", "embedding"},
    "memory_tags": {"memory_id", "tag"},
    "user_profiles": {"user_id", "profile_data", "preferences"},
    "agent_states": {"agent_id", "state_data"},
    "memory_relationships": {"source_memory_id", "target_memory_id"},
    "memory_access_logs": {"operation", "success", "memory_id"},
    "sessions": {"session_id", "session_type"},
}
_TABLES = tuple(_COLUMNS)
_SESSION_COLUMNS = ("session_id", "user_id", "created_at", "updated_at", "ended_at", "metadata", "summary",
                    "is_archived", "session_type")  # fmt: skip
_ENTRY_COLUMNS = ("memory_id", "session_id", "user_id", "memory_type", "content", "text_content", "source_agent",
                  "created_at", "updated_at", "expires_at", "priority", "is_active", "metadata")  # fmt: skip
_COMMON_NAMES = {"sessions"}  # a name that the tables of other systems have, too


def detect(sample: Sample) -> float:
    if sample.members:
        tables = list_table_files(sample.members).keys() & set(_TABLES)
        return 0.9 if tables - _COMMON_NAMES else 0.0
    if sample.has_tables(memory_entries="memory_id content") or _find_single_table(sample) is not None:
        return 0.95
    outline = sample.outline
    names = outline.keys() if isinstance(outline, dict) else list_dumped_tables(sample.head or "")
    table_names = {name for name in names if not isinstance(outline, dict) or isinstance(outline[name], list)}
    if "memory_entries" in table_names:
        return 0.95
    own_tables = table_names & (set(_TABLES) - _COMMON_NAMES)
    return 0.7 if own_tables or sample.has_tables(user_profiles="user_id preferences") else 0.0


def _find_single_table(sample: Sample) -> str | None:
    """Return the table that a file of one table holds."""
    if sample.tables or (
        isinstance(sample.outline, dict) and len(sample.lines) < 2 and not _has_columns(sample.outline)
    ):
        return None
    rows = list_sample_rows(sample)
    return next((name for name, columns in _COLUMNS.items() if rows and rows[0].keys() >= columns), None)


def _has_columns(row: Mapping[str, Any]) -> bool:
    return any(row.keys() >= columns for columns in _COLUMNS.values())


def find_members(sample: Sample) -> list[str]:
    """Return the files of a folder that hold a table."""
    return [member for table, member in list_table_files(sample.members).items() if table in _TABLES]


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    files = import_input.files
    has_table_names = bool(files.members) or files.is_database()
    single_table = None if has_table_names else _find_single_table(take_sample(files))
    with open_tables(files, single_table) as tables:
        for table in ("user_profiles", "sessions", "memory_entries", "agent_states", "memory_relationships"):
            if table in tables.columns:
                yield from _READERS[table](tables)
        if "memory_access_logs" in tables.columns and (count := tables.count_rows("memory_access_logs")):
            yield LeftOut("memory_access_logs", "only its own store can vouch for a log", count)
        if not files.members:  # other files are reported, or read, on their own
            yield from report_unread(tables, *_TABLES)


def _is_active(row: Mapping[str, Any]) -> bool:
    return row.get("is_active", True) not in (0, False, "0", "f", "false", "FALSE")


def _read_users(tables: ForeignTables) -> Iterator[SourceItem]:
    for row in tables.read_rows("user_profiles"):
        values = {
            "user": row.get("user_id"),
            "profile": row.get("profile_data"),
            "preferences": row.get("preferences"),
            "status": "active" if _is_active(row) else "inactive",
            "created_at": row.get("created_at"),
        }
        yield RowDraft("user", "user_profiles", f"user {row.get('user_id')!r:.80}", values)


def _read_sessions(tables: ForeignTables) -> Iterator[SourceItem]:
    for row in tables.read_rows("sessions", ("created_at",)):
        is_archived = row.get("is_archived") in (1, True, "1", "t", "true")
        values = {
            "id": row.get("session_id"),
            "user": row.get("user_id"),
            "created_at": row.get("created_at"),
            "updated_at": row.get("updated_at"),
            "ended_at": row.get("ended_at"),
            "metadata": add_other_fields(row.get("metadata"), row, _SESSION_COLUMNS),
            "summary": row.get("summary"),
            "is_archived": True if is_archived and row.get("ended_at") else None,
            "session_type": row.get("session_type"),
        }
        yield RowDraft("session", "sessions", f"session {row.get('session_id')!r:.80}", values)


def _read_memories(tables: ForeignTables) -> Iterator[SourceItem]:
    """Yield the active memories with their tags and vectors."""
    tags: dict[str, list[str]] = defaultdict(list)
    if "memory_tags" in tables.columns:
        for row in tables.read_rows("memory_tags"):
            tags[str(row.get("memory_id"))].append(str(row.get("tag")))
    vectors = {}
    if "vector_embeddings" in tables.columns:
        vectors = {str(row.get("memory_id")): row for row in tables.read_rows("vector_embeddings")}
    for row in tables.read_rows("memory_entries", ("created_at", "memory_id")):
        if not _is_active(row):
            yield LeftOut("memory_entries", "deleted in the old system (is_active is false)")
            continue
        memory_id = str(row.get("memory_id"))
        yield RowDraft(
            "memory",
            "memory_entries",
            f"memory {memory_id!r:.80}",
            _describe(row, tags[memory_id], vectors.get(memory_id)),
        )


def _describe(row: Mapping[str, Any], tags: list[str], embedding: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of a memory from its row and the row of its vector."""
    return {
        "id": row.get("memory_id"),
        "session": row.get("session_id"),
        "user": row.get("user_id"),
        "kind": row.get("memory_type"),
        "content": load_json(row.get("content")),
        "text": row.get("text_content"),
        "source_agent": row.get("source_agent"),
        "created_at": row.get("created_at"),
        "expires_at": row.get("expires_at"),
        "priority": row.get("priority"),
        "tags": tags,
        "vector": embedding.get("embedding") if embedding else None,
        "vector_model": embedding.get("embedding_model") if embedding else None,
        "metadata": add_other_fields(row.get("metadata"), row, _ENTRY_COLUMNS),
    }


def _read_states(tables: ForeignTables) -> Iterator[SourceItem]:
    for row in tables.read_rows("agent_states"):
        values = {
            "agent": row.get("agent_id"),
            "session": row.get("session_id"),
            "state": load_json(row.get("state_data")),
            "created_at": row.get("created_at"),
            "updated_at": row.get("updated_at"),
            "expires_at": row.get("expires_at"),
        }
        yield RowDraft("state", "agent_states", f"state of {row.get('agent_id')!r:.80}", values)


def _read_relationships(tables: ForeignTables) -> Iterator[SourceItem]:
    for number, row in enumerate(tables.read_rows("memory_relationships"), 1):
        values = {
            "source": row.get("source_memory_id"),
            "target": row.get("target_memory_id"),
            "type": row.get("relationship_type"),
            "metadata": row.get("metadata"),
            "created_at": row.get("created_at"),
        }
        yield RowDraft("relationship", "memory_relationships", f"memory_relationships row {number}", values)


_READERS = {
    "user_profiles": _read_users,
    "sessions": _read_sessions,
    "memory_entries": _read_memories,
    "agent_states": _read_states,
    "memory_relationships": _read_relationships,
}

SOURCE = ImportSource(
    "orchestrator",
    "the memory orchestrator's tables (memory_entries, …)",
    detect,
    read,
    find_members=find_members,
)
