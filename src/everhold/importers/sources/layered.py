"""Read the layered memory of a Julep program: a SQLite database, and a Chroma folder beside it.

Each of them may be imported alone. A document with the `sqlite_id` of a fact is the same memory as that fact.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC
from pathlib import PurePath
from typing import Any

from everhold.importers.files import ForeignFiles
from everhold.importers.source import ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.sources.chroma_files import DATABASE, TABLES, ChromaDocument, read_documents
from everhold.importers.values import load_json
from everhold.ports.foreign_tables import ForeignTables

_FACTS = "memory_facts"
_COLUMNS = {"conversations": "id session_id", "messages": "id conversation_id content role", _FACTS: "id content"}
_KINDS = {"user_fact": "fact", "fact": "fact", "context": "context", "preference": "preference"}


def detect(sample: Sample) -> float:
    has_database = sample.has_tables(**_COLUMNS)
    has_facts = sample.has_tables(memory_facts="id fact_type content")
    has_chroma = sample.has_tables(**TABLES)
    if has_database or has_facts:
        return 0.95
    return 0.8 if has_chroma else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    files = import_input.files
    databases = _list_databases(files)
    chroma_members = [member for member in databases if PurePath(member).name == DATABASE]
    if not files.is_folder:
        chroma_members = [""] if files.path.name == DATABASE else []
    for link in files.links:
        yield LeftOut("files", f"{link} is a link, and links are not followed")
    vectors: dict[str, bytes] = {}
    for member in chroma_members:
        vectors |= _collect_fact_vectors(files, member)
    has_facts = False
    for member in databases:
        if member not in chroma_members:
            with files.open_database(member) as tables:
                has_facts = has_facts or _FACTS in tables.columns
                yield from _read_database(tables, vectors)
    for member in chroma_members:
        for document in read_documents(files, member):
            yield document if isinstance(document, LeftOut) else _describe_document(document, has_facts)


def _list_databases(files: ForeignFiles) -> list[str]:
    """Return the databases of a folder with the tables that are read; "" for the input itself."""
    if not files.is_folder:
        return [""]
    members = [member for member in files.members if files.is_database(member)]
    return [member for member in members if _is_known(files, member)]


def _is_known(files: ForeignFiles, member: str) -> bool:
    if PurePath(member).name == DATABASE:
        return True
    with files.open_database(member) as tables:
        return detect(Sample(member, tables=tables.columns)) > 0


def find_members(sample: Sample) -> list[str]:
    """Return the databases of a folder that are read, and the files of Chroma's folder."""
    databases = [
        member
        for member, tables in sample.databases.items()
        if PurePath(member).name == DATABASE or detect(Sample(member, tables=tables))
    ]
    chroma_folders = {PurePath(member).parent for member in databases if PurePath(member).name == DATABASE}
    # The folders beside Chroma's database hold its indexes.
    indexes = [member for member in sample.members if chroma_folders & set(list(PurePath(member).parents)[1:])]
    return [*databases, *indexes]


def _collect_fact_vectors(files: ForeignFiles, member: str) -> dict[str, bytes]:
    """Return the vectors of the documents that are facts, by the number of the fact."""
    return {
        str(document.metadata["sqlite_id"]): document.vector or b""
        for document in read_documents(files, member)
        if isinstance(document, ChromaDocument) and document.metadata.get("sqlite_id") is not None
    }


def _read_database(tables: ForeignTables, vectors: Mapping[str, bytes]) -> Iterator[SourceItem]:
    """Yield the sessions, messages and facts of the database, as far as it has tables for them."""
    sessions: dict[Any, str] = {}
    if "conversations" in tables.columns:
        seen_sessions: set[str] = set()
        for row in tables.read_rows("conversations", ("id",)):
            session_id = str(row["session_id"])
            sessions[row["id"]] = session_id
            if session_id not in seen_sessions:
                seen_sessions.add(session_id)
                values = {"id": session_id, "created_at": row.get("timestamp"), "metadata": row.get("metadata")}
                yield RowDraft("session", "conversations", f"conversation {row['id']}", values)
    if "messages" in tables.columns:
        for row in tables.read_rows("messages", ("timestamp", "id")):
            session = sessions.get(row["conversation_id"])
            values = {
                "id": f"{session}/{row['id']}",
                "session": session,
                "conversation": f"{session}/{row['conversation_id']}",
                "role": row["role"],
                "text": row["content"],
                "created_at": row.get("timestamp"),
                "metadata": row.get("metadata"),
            }
            yield RowDraft("message", "messages", f"messages row {row['id']}", values)
    if _FACTS in tables.columns:
        for row in tables.read_rows(_FACTS, ("id",)):
            yield _describe_fact(row, vectors.get(str(row["id"])))


def _describe_fact(row: Mapping[str, Any], vector: bytes | None) -> RowDraft:
    """Return a memory from a row of the table of facts, with its stored vector if there is one."""
    metadata = load_json(row.get("metadata"))
    values = metadata if isinstance(metadata, dict) else {}
    fact_type = str(row.get("fact_type") or "fact")
    fields = {
        "id": f"fact-{row['id']}",
        "kind": _KINDS.get(fact_type, fact_type),
        "text": row["content"],
        "confidence": row.get("confidence"),
        "created_at": row.get("timestamp"),
        "user": values.get("user_id"),
        "session": values.get("session_id"),
        "tags": values.get("categories"),
        "metadata": {name: value for name, value in values.items() if name != "categories"},
        "vector": vector or None,
    }
    return RowDraft("memory", _FACTS, f"fact {row['id']}", fields)


def _describe_document(document: ChromaDocument, has_facts: bool) -> SourceItem:
    metadata = document.metadata
    if has_facts and metadata.get("sqlite_id") is not None:
        return LeftOut(f"collection {document.collection}", "the document is the copy of a fact")
    kind = str(metadata.get("type") or "observation")
    confidence = metadata.get("confidence")
    fields = {
        "id": document.document_id,
        "kind": _KINDS.get(kind, kind),
        "text": document.text,
        "session": metadata.get("session_id"),
        "user": metadata.get("user_id"),
        "created_at": metadata.get("timestamp") or document.created_at,
        "confidence": confidence if isinstance(confidence, float | int) else None,
        "tags": metadata.get("categories"),
        "metadata": {**metadata, "collection": document.collection},
        "vector": document.vector,
    }
    return RowDraft("memory", f"collection {document.collection}", f"document {document.document_id!r:.80}", fields)


# SQLite's CURRENT_TIMESTAMP is in UTC.
SOURCE = ImportSource(
    "layered",
    "a Julep program's memory.db, its Chroma folder, or both",
    detect,
    read,
    naive_zone=UTC,
    find_members=find_members,
)
