"""Read the items of LangGraph's SqliteStore."""

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from everhold.importers.source import ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.values import describe, load_json


def detect(sample: Sample) -> float:
    return float(sample.has_tables(store="prefix key value")) * 0.95


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_database() as tables:
        vectors: dict[tuple[Any, Any], Any] = {}
        if "store_vectors" in tables.columns:
            for row in tables.read_rows("store_vectors"):
                vectors.setdefault((row.get("prefix"), row.get("key")), row.get("embedding"))
        for row in tables.read_rows("store", ("created_at", "prefix", "key")):
            place = f"{row['prefix']!r:.60} {row['key']!r:.60}"
            yield RowDraft("memory", "store", place, _describe(row, vectors.get((row["prefix"], row["key"]))))
        if "checkpoints" in tables.columns and (count := tables.count_rows("checkpoints")):
            yield LeftOut("checkpoints", "a checkpoint is serialised Python, which is never loaded", count)


def _describe(row: Mapping[str, Any], vector: Any) -> dict[str, Any]:
    value = load_json(row.get("value"))
    prefix = str(row["prefix"])
    return {
        "id": f"{prefix}/{row['key']}",
        "text": value if isinstance(value, bytes) else describe(value),
        "content": value if isinstance(value, dict) else None,
        "kind": "observation",
        "user": value.get("user_id") if isinstance(value, dict) else None,
        "tags": [part for part in prefix.split(".") if part],
        "created_at": row.get("created_at"),
        "expires_at": row.get("expires_at"),
        "metadata": {"namespace": prefix.split("."), "key": row["key"]},
        "vector": vector,
    }


# SQLite's CURRENT_TIMESTAMP is in UTC.
SOURCE = ImportSource("langgraph", "LangGraph's SqliteStore", detect, read, naive_zone=UTC)
