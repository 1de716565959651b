"""Read an export of mem0 as JSON, or its SQLite history of memories."""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.rows import has_json_lines, iterate_json_lines, list_sample_rows
from everhold.importers.source import (
    BadRow,
    ImportInput,
    ImportSource,
    LeftOut,
    RowDraft,
    Sample,
    SourceItem,
    are_mostly,
    report_unread,
)
from everhold.json_streams import JsonStream

_LISTS = ("results", "memories")
_KNOWN_FIELDS = (
    "id", "memory", "text", "hash", "metadata", "created_at", "updated_at", "user_id", "agent_id", "run_id", "app_id",
    "actor_id", "role", "categories", "score", "expiration_date", "immutable", "data", "event", "text_lemmatized",
)  # fmt: skip


def detect_export(sample: Sample) -> float:
    outline = sample.outline
    if isinstance(outline, dict):
        outline = next((outline[name] for name in _LISTS if isinstance(outline.get(name), list)), outline)
    rows = outline[:5] if isinstance(outline, list) else list_sample_rows(sample)[:5]
    return 0.85 if are_mostly(rows, _is_memory) and not sample.tables else 0.0


def _is_memory(row: Any) -> bool:
    return isinstance(row, dict) and "id" in row and ("memory" in row or _is_point(row))


def _is_point(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a point of mem0's vector store, such as Qdrant."""
    payload = row.get("payload")
    return isinstance(payload, dict) and "data" in payload and "hash" in payload


def read_export(import_input: ImportInput) -> Iterator[SourceItem]:
    if has_json_lines(import_input.files):
        for row in iterate_json_lines(import_input.files):
            yield from _read_row("lines", row.place, row.value if row.fields is None else row.fields)
        return
    with import_input.files.open_json() as stream:
        if stream.peek() == "[":
            yield from _read_list(stream, "memories")
        else:
            for name in stream.iterate_members():
                if name in _LISTS and stream.peek() == "[":
                    yield from _read_list(stream, name)
                elif name == "relations" and stream.peek() == "[":
                    yield from _read_relations(stream)
                elif name == "relations" and stream.peek() == "{":
                    yield from _read_added_relations(stream)
                else:
                    stream.skip_value()
        stream.require_end()


def _read_list(stream: JsonStream, origin: str) -> Iterator[SourceItem]:
    for index in stream.iterate_items():
        yield from _read_row(origin, f"{origin}[{index}]", stream.read_value())


def _read_row(origin: str, place: str, row: Any) -> Iterator[SourceItem]:
    if not isinstance(row, dict):
        yield BadRow(origin, place, "the memory is not an object", row, "memory")
    elif row.get("event") == "DELETE":
        yield LeftOut(origin, "deleted in mem0")
    elif _is_point(row):
        yield RowDraft("memory", origin, place, describe_point(row))
    else:
        yield RowDraft("memory", origin, place, _describe(row))


def describe_point(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a memory from a point of the vector store."""
    payload, vector = point["payload"], point.get("vector")
    # A point with several vectors has them by name; the vector of the text has an empty name.
    text_vector = vector.get("") if isinstance(vector, dict) else vector
    return {**_describe({**payload, "id": point["id"], "memory": payload["data"]}), "vector": text_vector}


def _describe(row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = row.get("metadata")
    other_fields = {name: value for name, value in row.items() if name not in _KNOWN_FIELDS and value is not None}
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
        "metadata": {**(metadata if isinstance(metadata, dict) else {}), **other_fields},
    }


def _read_relations(stream: JsonStream) -> Iterator[SourceItem]:
    """Yield the relations of the graph as memories, because they connect names, not memories."""
    for index in stream.iterate_items():
        yield _describe_relation(f"relations[{index}]", stream.read_value())


def _describe_relation(place: str, row: Any) -> SourceItem:
    if not isinstance(row, dict):
        return BadRow("relations", place, "the relation is not an object", row, "memory")
    names = (
        row.get("source"),
        row.get("relationship") or row.get("relation"),
        row.get("target") or row.get("destination"),
    )
    text = " ".join(str(name).replace("_", " ") for name in names if name)
    return RowDraft("memory", "relations", place, {"text": text, "kind": "entity", "content": row})


def _read_added_relations(stream: JsonStream) -> Iterator[SourceItem]:
    """Yield the added relations in a reply to an addition. The reply groups relations by what was done with them."""
    for name in stream.iterate_members():
        if name != "added_entities" or stream.peek() != "[":
            stream.skip_value()
            continue
        for index in stream.iterate_items():
            value = stream.read_value()
            for row in value if isinstance(value, list) else [value]:
                yield _describe_relation(f"added_entities[{index}]", row)


def detect_history(sample: Sample) -> float:
    is_known = sample.has_tables(history="memory_id new_memory event")
    # The first versions used other column names.
    return 0.95 if is_known or sample.has_tables(history="memory_id prev_value new_value event") else 0.0


def read_history(import_input: ImportInput) -> Iterator[SourceItem]:
    """Yield each memory as it was after its last event."""
    with import_input.files.open_database() as tables:
        latest: Mapping[str, Any] | None = None
        created_at: Any = None
        # Events are in the order in which they were appended. Some versions store deletions without a time.
        for row in tables.read_rows("history", ("memory_id", "rowid")):
            if latest is not None and row["memory_id"] != latest["memory_id"]:
                yield _describe_latest(latest, created_at)
                created_at = None
            created_at = created_at or row.get("created_at") or row.get("timestamp")
            latest = row
        if latest is not None:
            yield _describe_latest(latest, created_at)
        if "messages" in tables.columns and (count := tables.count_rows("messages")):
            yield LeftOut("messages", "mem0 keeps only the last few of each scope", count)
        yield from report_unread(tables, "history", "messages")


def _describe_latest(row: Mapping[str, Any], created_at: Any) -> SourceItem:
    place = f"memory {row['memory_id']!r:.80}"
    if row.get("event") == "DELETE" or row.get("is_deleted") in (1, True):
        return LeftOut("history", "deleted in mem0")
    values = {
        "id": row["memory_id"],
        "text": row.get("new_memory") or row.get("new_value"),
        "kind": "fact",
        "created_at": created_at,
    }
    return RowDraft("memory", "history", place, values)


EXPORT = ImportSource("mem0", "mem0's memories as JSON (get_all, export)", detect_export, read_export)
HISTORY = ImportSource("mem0-history", "mem0's history.db", detect_history, read_history)
