"""Read the documents of a Chroma folder: texts and metadata from its SQLite file, and vectors from two places.

A vector is in the queue of the SQLite file until Chroma moves it to the index files of its collection. Vectors that
cannot be read are computed again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from everhold.importers.files import ForeignFiles
from everhold.importers.source import LeftOut
from everhold.importers.sources.chroma_index import FILES, open_index
from everhold.ports.foreign_tables import ForeignRow, ForeignTables

DATABASE = "chroma.sqlite3"
TABLES = {"collections": "id name", "embeddings": "id embedding_id", "embedding_metadata": "id key string_value"}
_DOCUMENT = "chroma:document"
_FLOAT32 = ("FLOAT32", 0, "0", None)
_VECTOR_SEGMENT = "VECTOR"
# The maximum number of vectors to read from the queue, because Chroma before 0.5.6 never emptied it. Other vectors are
# read from the index, or computed again.
_MAX_QUEUE_BYTES = 64_000_000

FindVector = Callable[[str], bytes | None]


class ChromaDocument(NamedTuple):
    """A document of a collection, with its metadata, its time and, if it could be read, its vector."""

    collection: str
    document_id: str
    """The id in the collection. If there are several collections, it begins with the collection's name."""
    text: str
    metadata: dict[str, Any]
    created_at: Any
    vector: bytes | None


def read_documents(files: ForeignFiles, member: str) -> Iterator[ChromaDocument | LeftOut]:
    """Yield the documents of all collections, and for each collection the number of vectors that cannot be read."""
    with files.open_database(member) as tables, ExitStack() as stack:
        collection_names = {str(row["id"]): str(row["name"]) for row in tables.read_rows("collections")}
        segments = list(tables.read_rows("segments")) if "segments" in tables.columns else []
        collection_by_segment = {str(row.get("id")): str(row.get("collection")) for row in segments}
        indexes = _open_indexes(stack, files, member, segments)
        queue = _read_queue(tables, _read_positions(tables, collection_by_segment, indexes))
        missing_vectors: Counter[tuple[str, str]] = Counter()
        for row, values in _join_metadata(tables):
            collection = collection_by_segment.get(str(row.get("segment_id")), "")
            name = collection_names.get(collection, "")
            text = values.pop(_DOCUMENT, None)
            if not isinstance(text, str) or not text.strip():
                yield LeftOut(f"collection {name}", "the document has no text")
                continue
            document_id = str(row["embedding_id"])
            find_vector, fault = indexes.get(collection, (None, "there are no index files beside the database"))
            vector = queue.get((collection, document_id))
            if not vector and find_vector is not None:
                vector = find_vector(document_id)
            if vector is None:
                missing_vectors[name, fault or "the index has none"] += 1
            unique_id = document_id if len(collection_names) == 1 else f"{name}/{document_id}"
            yield ChromaDocument(name, unique_id, text, values, row.get("created_at"), vector)
        for (name, fault), count in missing_vectors.items():
            reason = f"the vector could not be read and is computed again: {fault}"
            yield LeftOut(f"vectors of collection {name}", reason, count)


def _open_indexes(
    stack: ExitStack, files: ForeignFiles, member: str, segments: list[ForeignRow]
) -> dict[str, tuple[FindVector | None, str]]:
    """Return the index of each collection with index files, or the reason why it cannot be opened."""
    indexes: dict[str, tuple[FindVector | None, str]] = {}
    for row in segments:
        # The id of a segment is the name of its folder. It is only compared with names of existing files, not opened.
        folder = f"{PurePosixPath(member).parent / str(row.get('id'))}/".removeprefix("./")
        if row.get("scope") == _VECTOR_SEGMENT and all(folder + name in files.members for name in FILES):
            try:
                index = stack.enter_context(open_index(files, folder))
                indexes[str(row.get("collection"))] = (index.find, "")
            except ValueError as error:
                indexes[str(row.get("collection"))] = (None, str(error))
    return indexes


def _join_metadata(tables: ForeignTables) -> Iterator[tuple[ForeignRow, dict[str, Any]]]:
    """Yield each embedding with its metadata."""
    metadata = _group_metadata(tables)
    number, values = next(metadata, (None, {}))
    for row in tables.read_rows("embeddings", ("id",)):
        # Both tables are read in the order of the embedding's number.
        while number is not None and number < row["id"]:
            number, values = next(metadata, (None, {}))
        yield row, dict(values) if number == row["id"] else {}


def _read_positions(
    tables: ForeignTables,
    collection_by_segment: Mapping[str, str],
    indexes: Mapping[str, tuple[FindVector | None, str]],
) -> dict[str, int]:
    """Return, for each collection, the last number of the queue whose vector is in the index."""
    if "max_seq_id" not in tables.columns:
        return {}
    # Each collection also has a segment for metadata, whose number is ahead of the index's number.
    positions: dict[str, int] = {}
    for row in tables.read_rows("max_seq_id"):
        collection, number = collection_by_segment.get(str(row.get("segment_id")), ""), row.get("seq_id")
        if isinstance(number, int) and indexes.get(collection, (None, ""))[0] is not None:
            positions[collection] = min(number, positions.get(collection, number))
    return positions


def _read_queue(tables: ForeignTables, positions: Mapping[str, int]) -> dict[tuple[str, str], bytes]:
    """Return the vectors in the queue that are not in an index, by collection and document; the latest of each."""
    if "embeddings_queue" not in tables.columns:
        return {}
    vectors: dict[tuple[str, str], bytes] = {}
    size = 0
    for row in tables.read_rows("embeddings_queue", ("seq_id",)):
        # A topic ends with the id of its collection: persistent://default/default/8d0f5778-…
        collection, number, vector = str(row.get("topic")).rpartition("/")[2], row.get("seq_id"), row.get("vector")
        if isinstance(number, int) and number <= positions.get(collection, -1):
            continue
        if isinstance(vector, bytes) and row.get("encoding") in _FLOAT32 and size < _MAX_QUEUE_BYTES:
            vectors[collection, str(row.get("id"))] = vector
            size += len(vector)
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
