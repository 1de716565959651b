"""Read an export of mem0 as JSON, or its SQLite history of memories."""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.rows import list_sample_rows
from everhold.importers.source import (
    BadRow,
    ImportInput,
    ImportSource,
    LeftOut,
    RowDraft,
    Sample,
    SourceItem,
    report_unread,
)
from everhold.json_streams import JsonStream

_LISTS = ("results", "memories")
_KNOWN = ("id", "memory", "text", "hash", "metadata", "created_at", "updated_at", "user_id", "agent_id", "run_id",
          "app_id", "actor_id", "role", "categories", "score", "expiration_date", "immutable")  # fmt: skip


def detect_export(sample: Sample) -> float:
    outline = sample.outline
    if isinstance(outline, dict):
        outline = next((outline[name] for name in _LISTS if isinstance(outline.get(name), list)), outline)
    rows = outline[:3] if isinstance(outline, list) else list_sample_rows(sample)[:3]
    is_known = all(isinstance(row, dict) and "memory" in row and "id" in row for row in rows)
    return 0.85 if rows and is_known and not sample.tables else 0.0


def read_export(opened: ImportInput) -> Iterator[SourceItem]:
    with opened.files.open_json() as stream:
        if stream.peek() == "[":
            yield from _read_list(stream, "memories")
        else:
            for name in stream.iterate_members():
                if name in _LISTS and stream.peek() == "[":
                    yield from _read_list(stream, name)
                elif name == "relations" and stream.peek() == "[":
                    yield from _read_relations(stream)
                else:
                    stream.skip_value()
        stream.require_end()


def _read_list(stream: JsonStream, origin: str) -> Iterator[SourceItem]:
    for index in stream.iterate_items():
        row, place = stream.read_value(), f"{origin}[{index}]"
        if isinstance(row, dict):
            yield RowDraft("memory", origin, place, _describe(row))
        else:
            yield BadRow(origin, place, "the memory is not an object", row, "memory")


def _describe(row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = row.get("metadata")
    others = {name: value for name, value in row.items() if name not in _KNOWN and value is not None}
    return {
        "id": row.get("id"),
        "text": row.get("memory") or row.get("text"),
        "kind": "fact",
        "user": row.get("user_id"),
        "agent": row.get("agent_id"),
        "session": row.get("run_id"),
        "tags": row.get("categories"),
        "created_at": row.get("created_at"),
        "expires_at": row.get("expiration_date"),
        "metadata": {**(metadata if isinstance(metadata, dict) else {}), **others},
    }


def _read_relations(stream: JsonStream) -> Iterator[SourceItem]:
    """Yield the relations of the graph as memories, because they connect names, not memories."""
    for index in stream.iterate_items():
        row, place = stream.read_value(), f"relations[{index}]"
        if not isinstance(row, dict):
            yield BadRow("relations", place, "the relation is not an object", row, "memory")
            continue
        names = (
            row.get("source"),
            row.get("relationship") or row.get("relation"),
            row.get("target") or row.get("destination"),
        )
        text = " ".join(str(name).replace("_", " ") for name in names if name)
        yield RowDraft("memory", "relations", place, {"text": text, "kind": "entity", "content": row})


def detect_history(sample: Sample) -> float:
    return float(sample.has_tables(history="memory_id new_memory event")) * 0.95


def read_history(opened: ImportInput) -> Iterator[SourceItem]:
    """Yield each memory as it was after its last event."""
    with opened.files.open_database() as tables:
        latest: Mapping[str, Any] | None = None
        began: Any = None
        for row in tables.read_rows("history", ("memory_id", "created_at", "updated_at", "rowid")):
            if latest is not None and row["memory_id"] != latest["memory_id"]:
                yield _describe_latest(latest, began)
                began = None
            began = began or row.get("created_at")
            latest = row
        if latest is not None:
            yield _describe_latest(latest, began)
        if "messages" in tables.columns and (count := tables.count_rows("messages")):
            yield LeftOut("messages", "mem0 keeps only the last few of each scope", count)
        yield from report_unread(tables, "history", "messages")


def _describe_latest(row: Mapping[str, Any], began: Any) -> SourceItem:
    place = f"memory {row['memory_id']!r:.80}"
    if row.get("event") == "DELETE" or row.get("is_deleted") in (1, True):
        return LeftOut("history", "deleted in mem0")
    values = {"id": row["memory_id"], "text": row.get("new_memory"), "kind": "fact", "created_at": began}
    return RowDraft("memory", "history", place, values)


EXPORT = ImportSource("mem0", "mem0's memories as JSON (get_all, export)", detect_export, read_export)
HISTORY = ImportSource("mem0-history", "mem0's history.db", detect_history, read_history)
