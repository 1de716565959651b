"""Read MemoryOrchestratorService's SQLite database, unified_memory.db, with one table of memories."""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.source import ImportInput, ImportSource, RowDraft, Sample, SourceItem, report_unread
from everhold.importers.values import load_json

_LINKS = "memory_relationships"


def detect(sample: Sample) -> float:
    return float(sample.has_tables(memories="memory_id content memory_type")) * 0.95


def read(opened: ImportInput) -> Iterator[SourceItem]:
    with opened.files.open_database() as tables:
        for row in tables.read_rows("memories", ("created_at", "memory_id")):
            yield RowDraft("memory", "memories", f"memory {row['memory_id']!r:.80}", _describe(row))
        for row in tables.read_rows("memories", ("created_at", "memory_id")):
            yield from _read_relationships(row)
        if _LINKS in tables.columns:
            for number, row in enumerate(tables.read_rows(_LINKS), 1):
                yield _describe_link(number, row)
        yield from report_unread(tables, "memories", _LINKS)


def _describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a memory from a row of the database."""
    content = load_json(row.get("content"))
    metadata = load_json(row.get("metadata"))
    values = metadata if isinstance(metadata, dict) else {}
    return {
        "id": row["memory_id"],
        "user": values.get("user_id"),
        "source_agent": values.get("agent_id") or values.get("source"),
        "kind": row.get("memory_type"),
        "content": content if isinstance(content, dict) else None,
        "text": None if isinstance(content, dict) else content,
        "importance": row.get("importance"),
        "created_at": row.get("created_at"),
        "expires_at": row.get("expires_at"),
        "tags": row.get("tags"),
        "level": row.get("memory_tier"),
        "metadata": {**values, "parent_id": row["parent_id"]} if row.get("parent_id") else metadata,
    }


def _read_relationships(row: Mapping[str, Any]) -> Iterator[SourceItem]:
    """Yield the relationships of a memory to its parent and to related memories."""
    place = f"memory {row['memory_id']!r:.80}"
    if row.get("parent_id"):
        values = {"source": row["memory_id"], "target": row["parent_id"], "type": "derived_from"}
        yield RowDraft("relationship", "parent_id", place, values)
    related = load_json(row.get("relationships"))
    pairs: list[tuple[Any, Any]]
    if isinstance(related, dict):
        # {type: [ids]} or {id: type}
        lists = [(name, values) for name, values in related.items() if isinstance(values, list)]
        pairs = [(target, name) for name, values in lists for target in values]
        pairs += [(target, _read_type(kind)) for target, kind in related.items() if not isinstance(kind, list)]
    else:
        pairs = [_read_pair(item) for item in (related if isinstance(related, list) else [])]
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


def _read_pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, dict):
        return item, "related_to"
    names = ("target_id", "target", "memory_id", "related_id", "id")
    target = next((item[name] for name in names if item.get(name)), None)
    return target, _read_type(item) or "related_to"


SOURCE = ImportSource("unified-database", "MemoryOrchestratorService's unified_memory.db", detect, read)
