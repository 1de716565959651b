"""Read mem0's memories from its default vector store, a folder of Qdrant's local mode.

Each collection has a SQLite file with a pickled point per row. The points are read without unpickling them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.pickled_values import read_model
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
from everhold.importers.sources.mem0 import describe_point


def detect(sample: Sample) -> float:
    return 0.9 if sample.has_tables(points="id point") else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_database() as tables:
        for number, row in enumerate(tables.read_rows("points", ("rowid",)), 1):
            yield _read_point(f"points row {number}", row)
        yield from report_unread(tables, "points")


def _read_point(place: str, row: Mapping[str, Any]) -> SourceItem:
    pickled = row["point"]
    try:
        point = read_model(pickled if isinstance(pickled, bytes) else b"")
    except ValueError as error:
        reason = f"the point cannot be read without unpickling it: {error}"
        return BadRow("points", place, reason, {"id": row["id"]}, "memory")
    payload = point.get("payload")
    if not isinstance(payload, dict) or "data" not in payload:
        return LeftOut("points", "not a memory of mem0")
    if "linked_memory_ids" in payload:
        return LeftOut("points", "an entity that mem0 found in its memories")
    return RowDraft("memory", "points", place, describe_point(point))


SOURCE = ImportSource("mem0-points", "mem0's points in a local store of Qdrant (storage.sqlite)", detect, read)
