"""Read the memory orchestrator's tables: a SQLite database, a JSON object with a list per table, or CSV files.

The orchestrator uses PostgreSQL, whose COPY writes a table to a CSV file. A folder may contain the files of several
tables.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.rows import list_csv_tables, list_sample_rows, open_tables
from everhold.importers.source import ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem, report_unread
from everhold.importers.values import load_json
from everhold.ports.foreign_tables import ForeignTables

_TABLES = (
    "sessions", "memory_entries", "memory_tags", "vector_embeddings", "user_profiles", "agent_states",
    "memory_relationships", "memory_access_logs",
)  # fmt: skip


def detect(sample: Sample) -> float:
    if sample.has_tables(memory_entries="memory_id content") or "memory_entries" in list_csv_tables(sample.members):
        return 0.95
    if sample.outline is None and not sample.tables and not sample.members:
        header = list_sample_rows(sample)
        return 0.95 if header and header[0].keys() >= {"memory_id", "memory_type", "content"} else 0.0
    outline = sample.outline
    if isinstance(outline, dict) and isinstance(outline.get("memory_entries"), list):
        return 0.95
    has_lists = isinstance(outline, dict) and any(isinstance(outline.get(name), list) for name in _TABLES[4:])
    return 0.7 if has_lists or sample.has_tables(user_profiles="user_id preferences") else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    with open_tables(opened.files, "memory_entries") as tables:
        for table in ("user_profiles", "sessions", "memory_entries", "agent_states", "memory_relationships"):
            if table in tables.columns:
                yield from _READERS[table](tables)
        if "memory_access_logs" in tables.columns and (count := tables.count_rows("memory_access_logs")):
            yield LeftOut("memory_access_logs", "only its own store can vouch for a log", count)
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
            "metadata": row.get("metadata"),
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
        name = str(row.get("memory_id"))
        yield RowDraft(
            "memory", "memory_entries", f"memory {name!r:.80}", _describe(row, tags[name], vectors.get(name))
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

SOURCE = ImportSource("orchestrator", "the memory orchestrator's tables (memory_entries, …)", detect, read)
