"""Reads the documents of a Chroma folder from its SQLite file.

Chroma keeps vectors in index files whose metadata is a pickle, which is never loaded. The vectors of documents that are
still in Chroma's queue are read from there; the others are computed again.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from everhold.importers.source import LeftOut
from everhold.ports.foreign_tables import ForeignRow, ForeignTables

DATABASE = "chroma.sqlite3"
TABLES = {"collections": "id name", "embeddings": "id embedding_id", "embedding_metadata": "id key string_value"}
_DOCUMENT = "chroma:document"
_FLOAT32 = ("FLOAT32", 0, "0", None)


class ChromaDocument(NamedTuple):
    """A document of a collection, with its metadata and, if it could be read, its vector."""

    collection: str
    document_id: str
    text: str
    metadata: dict[str, Any]
    vector: bytes | None


def read_documents(tables: ForeignTables) -> Iterator[ChromaDocument | LeftOut]:
    """Yield the documents of all collections."""
    collections = _map_segments(tables)
    vectors = _read_queue(tables)
    metadata = _group_metadata(tables)
    number, own = next(metadata, (None, {}))
    for row in tables.read_rows("embeddings", ("id",)):
        # Both tables are read in the order of the number.
        while number is not None and number < row["id"]:
            number, own = next(metadata, (None, {}))
        values = dict(own) if number == row["id"] else {}
        text = values.pop(_DOCUMENT, None)
        collection = collections.get(str(row.get("segment_id")), "")
        if not isinstance(text, str) or not text.strip():
            yield LeftOut(f"collection {collection}", "the document has no text")
            continue
        name = str(row["embedding_id"])
        yield ChromaDocument(collection, name, text, values, vectors.get(name))


def _map_segments(tables: ForeignTables) -> dict[str, str]:
    """Return the name of the collection of each segment."""
    names = {str(row["id"]): str(row["name"]) for row in tables.read_rows("collections")}
    if "segments" not in tables.columns:
        return {}
    return {str(row.get("id")): names.get(str(row.get("collection")), "") for row in tables.read_rows("segments")}


def _read_queue(tables: ForeignTables) -> dict[str, bytes]:
    """Return the vectors that are still in the queue, by the id of their document; the latest of each."""
    if "embeddings_queue" not in tables.columns:
        return {}
    vectors = {}
    for row in tables.read_rows("embeddings_queue", ("seq_id",)):
        if isinstance(row.get("vector"), bytes) and row.get("encoding") in _FLOAT32:
            vectors[str(row.get("id"))] = row["vector"]
    return vectors


def _group_metadata(tables: ForeignTables) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the metadata of each embedding by its number, in ascending order."""
    number, values = None, dict[str, Any]()
    for row in tables.read_rows("embedding_metadata", ("id",)):
        if row["id"] != number:
            if number is not None:
                yield number, values
            number, values = row["id"], {}
        values[str(row["key"])] = _find_value(row)
    if number is not None:
        yield number, values


def _find_value(row: ForeignRow) -> Any:
    if row.get("bool_value") is not None:
        return bool(row["bool_value"])
    columns = ("string_value", "int_value", "float_value")
    return next((row[name] for name in columns if row.get(name) is not None), None)
