"""Upload a data file: copy it, read it in a child process, profile its tables, store the files, commit the rows."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from everhold import clock
from everhold.ask.sources.content import read_contents
from everhold.ask.sources.deps import DataDeps, FetchedFile
from everhold.ask.sources.lookup import DEFAULT_PROJECT, READY, REPLACED, find_project, list_fields, list_tables
from everhold.ask.sources.rows import BY_USER, DescribedTable, infer_keys, make_content, make_table_rows
from everhold.errors import BrokenReference, StaleVersion, StoreBusy
from everhold.model import Chunk, Scope, Source, TableMetadata
from everhold.model.announcement import make_announcement
from everhold.model.base import Entity
from everhold.model.validation import validate_row
from everhold.ports.data_files import FileContent, TableFile
from everhold.ports.table_content import TableContent
from everhold.progress import ReportProgress, StepProgress
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import get_table
from everhold.schema.operations import Delete, Op, Operation, Patch, Put, Where

# The maximum number of threads that write tables to the file store.
_WRITER_THREADS = 16
# The maximum number of ids in one query.
_ID_BATCH = 500

_MEDIA_TYPES = {
    "CSV": "text/csv", "TSV": "text/tab-separated-values", "JSON": "application/json", "JSONL": "application/jsonl",
    "Excel": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "Parquet": "application/vnd.apache.parquet", "SQLite": "application/vnd.sqlite3",
}  # fmt: skip


@dataclass(frozen=True)
class UploadedFile:
    """A source, its tables, and what the reader detected and repaired.

    `is_new` is False if the same content had been uploaded before. `details` are the detected properties: "format",
    "encoding", "separator", "decimal", "dates", "header". `notes` are sentences about repairs. `seconds` says how long
    each step of reading took.
    """

    source: Source
    tables: tuple[DescribedTable, ...]
    is_new: bool
    details: Mapping[str, str]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]


def upload_file(deps: DataDeps, scope: Scope, path: str, name: str | None, report: ReportProgress) -> UploadedFile:
    """Store a file and its tables in the scope's project. If this fails, no file and no row is left behind.

    Content that is stored already under the same name is not stored again.
    """
    with deps.make_folder() as folder:
        original = folder / "original"
        fetched = deps.fetch(path, original, report)
        if name is not None:
            fetched = fetched._replace(name=name)
        project = find_project(scope) or DEFAULT_PROJECT
        current = _find_current_version(deps, scope.organization, project, fetched.name)
        if current is not None and current.sha256 == fetched.sha256:
            stored = _load_upload(deps, current)
            if _has_files(deps, stored):
                return stored
        content = deps.reader.read(original, fetched.name, folder / "tables", report)
        report(StepProgress("storing", 0, len(content.tables)))
        source = _draft_source(scope, project, path, fetched, content)
        try:
            return _store(deps, scope, source, content, original, report)
        except BaseException:  # also an interrupt: it must leave no files behind
            # If the source has a row, the commit succeeded and the files belong to it.
            if not deps.records.get(Source, scope.organization, [source.id]):
                deps.files.delete(scope.organization, [source.id])
            raise


def _find_current_version(deps: DataDeps, organization: str, project: str, name: str) -> Source | None:
    """Return the source with the current version of the file with this name."""
    where = [Where("project_id", Op.EQ, project), Where("name", Op.EQ, name), Where("status", Op.EQ, READY)]
    rows = deps.records.scan(Source, organization, where, order="created_at", descending=True, limit=1)
    return rows[0] if rows else None


def _load_upload(deps: DataDeps, source: Source) -> UploadedFile:
    """Return an earlier upload from its rows."""
    where = [Where("source_id", Op.EQ, source.id)]
    tables = deps.records.scan(TableMetadata, source.organization_id, where, order="table_name")
    fields = list_fields(deps.records, source.organization_id, [table.id for table in tables])
    described_tables = tuple(DescribedTable(table, tuple(fields[table.id])) for table in tables)
    details, notes = source.metadata.get("details", {}), source.metadata.get("notes", [])
    return UploadedFile(source, described_tables, False, details, tuple(notes), {})


def _has_files(deps: DataDeps, upload: UploadedFile) -> bool:
    """Return whether all files of an upload are stored. An import of a bundle brings the rows without the files."""
    of_tables = [described.table.metadata.get(name) for described in upload.tables for name in ("content", "values")]
    addresses = {str(address) for address in (upload.source.sha256, *of_tables) if address is not None}
    return deps.files.has_all(upload.source.organization_id, upload.source.id, addresses)


def _draft_source(scope: Scope, project: str, path: str, fetched: FetchedFile, content: FileContent) -> Source:
    """Return the row of an uploaded file that is not stored yet."""
    now = clock.now()
    return validate_row(
        Source,
        {
            "id": clock.make_id("src"),
            "organization_id": scope.organization,
            "project_id": project,
            "created_at": now,
            "updated_at": now,
            "created_by_id": scope.actor,
            "last_updated_by_id": scope.actor,
            "name": fetched.name,
            "path": path,
            "media_type": _MEDIA_TYPES.get(content.details.get("format", "")),
            "size": fetched.size,
            "sha256": fetched.sha256,
            "status": READY,
            "row_count": sum(table.row_count for table in content.tables),
            "metadata": {"details": dict(content.details), "notes": list(content.notes)},
        },
    )


def _store(
    deps: DataDeps, scope: Scope, source: Source, content: FileContent, original: Path, report: ReportProgress
) -> UploadedFile:
    """Store the files of a source, then commit its rows in one transaction.

    The commit is retried if other callers have changed the tables of the project. The files stay as they are.
    """
    organization = source.organization_id
    deps.files.put_file(organization, source.id, original, source.sha256)
    addresses = _store_tables(deps, source, content.tables)

    def commit(_: int) -> UploadedFile:
        previous = _find_current_version(deps, organization, source.project_id, source.name)
        version = _number_version(source, previous)
        tables, key_patches = _make_rows(deps, version, content, addresses, previous)
        report(StepProgress("storing", len(tables), len(tables)))
        file_scope = Scope(organization=organization, project=version.project_id, user=scope.user)
        operations = [
            *deps.make_missing_rows(file_scope, version.created_at),
            *add_rows(deps, [version]),
            *add_rows(deps, [described.table for described in tables]),
            *add_rows(deps, [field for described in tables for field in described.fields]),
            *key_patches,
            *([] if previous is None else _replace_version(deps, previous, version.created_at)),
            deps.make_line(scope, "create", version.id, version.created_at, tables=len(tables)),
        ]
        try:
            deps.records.commit(operations)
        except BrokenReference as error:
            deps.invalidate_rows()
            raise TryAgain("a row of the scope was deleted") from error
        except StaleVersion as error:
            raise TryAgain("another version of the file or another table was uploaded") from error
        return UploadedFile(version, tables, True, content.details, _collect_notes(content), content.seconds)

    busy = StoreBusy("the tables of the project keep changing", value=source.name, remedy="try again")
    return retry("upload a file", commit, CONFLICTS, give_up=lambda _: busy)


def _collect_notes(content: FileContent) -> tuple[str, ...]:
    """Return the notes on the file and on its tables, which are named if there are several."""
    has_several = len(content.tables) > 1
    table_notes = (f"{table.name}: {note}" if has_several else note for table in content.tables for note in table.notes)
    return (*content.notes, *table_notes)


def _number_version(source: Source, previous: Source | None) -> Source:
    """Return a source with the number of its version of the file and the id of the version before it."""
    number = 1 if previous is None else int(previous.metadata.get("file_version", 1)) + 1
    metadata: dict[str, Any] = {**source.metadata, "file_version": number}
    if previous is not None:
        metadata["replaces"] = previous.id
    return source.evolve(metadata=metadata)


def _store_tables(deps: DataDeps, source: Source, tables: Sequence[TableFile]) -> list[dict[str, Any]]:
    """Store a file with the content of each table, and one file with the values of all tables.

    Return the addresses for each table. "place" is the position of its values in the file of values.
    """
    organization = source.organization_id
    values = [{column.name: list(column.values) for column in table.columns} for table in tables]
    address = deps.files.put_values(organization, source.id, values)
    # Threads spend most of their time waiting for the disk, which can make several files durable at once.
    with ThreadPoolExecutor(min(_WRITER_THREADS, len(tables))) as pool:
        contents = list(pool.map(lambda table: deps.files.put_file(organization, source.id, table.path), tables))
    return [{"content": content, "values": address, "place": number} for number, content in enumerate(contents)]


def _make_rows(
    deps: DataDeps,
    source: Source,
    content: FileContent,
    addresses: Sequence[Mapping[str, Any]],
    previous: Source | None,
) -> tuple[tuple[DescribedTable, ...], list[Operation]]:
    """Return the rows of the tables, and patches that add foreign keys to tables of other files."""
    scope = Scope(organization=source.organization_id, project=source.project_id)
    # Tables of databases are not joined with those of files.
    file_tables = [table for table in list_tables(deps.records, scope) if table.source_id is not None]
    others = [table for table in file_tables if previous is None or table.source_id != previous.id]
    contents = _name_tables(content.tables, others)
    keys = infer_keys(contents, read_contents(deps, others))
    tables = tuple(
        make_table_rows(source, table, renamed, keys.get(renamed.name, []), files)
        for table, renamed, files in zip(content.tables, contents, addresses, strict=True)
    )
    if previous is not None:
        previous_tables = [table for table in file_tables if table.source_id == previous.id]
        tables = tuple(keep_descriptions(deps, tables, previous_tables))
    return tables, list(_update_other_keys(others, contents, keys, source.created_at))


def _name_tables(tables: Sequence[TableFile], others: Sequence[TableMetadata]) -> list[TableContent]:
    """Return the tables with names that are unique in the project: "orders" may become "orders_2"."""
    used_names = {table.table_name.lower() for table in others}
    names: dict[str, str] = {}
    for table in tables:
        name, number = table.name, 1
        while name.lower() in used_names:
            number += 1
            name = f"{table.name}_{number}"
        used_names.add(name.lower())
        names[table.name] = name
    return [make_content(_rename_targets(table, names), names[table.name]) for table in tables]


def _rename_targets(table: TableFile, names: Mapping[str, str]) -> TableFile:
    """Return a table whose foreign keys refer to the new names of tables."""
    keys = tuple(replace(key, to_table=names.get(key.to_table, key.to_table)) for key in table.foreign_keys)
    return replace(table, foreign_keys=keys)


def keep_descriptions(
    deps: DataDeps, tables: Sequence[DescribedTable], previous_tables: Sequence[TableMetadata]
) -> Iterator[DescribedTable]:
    """Yield tables with the descriptions that users wrote for previous tables and columns of the same names."""
    by_name = {table.table_name: table for table in previous_tables}
    organization = previous_tables[0].organization_id if previous_tables else ""
    fields = list_fields(deps.records, organization, [table.id for table in previous_tables]) if by_name else {}
    for described in tables:
        previous = by_name.get(described.table.table_name)
        previous_fields = {row.name: row for row in fields.get(previous.id, ())} if previous is not None else {}
        updated = tuple(_keep_description(field, previous_fields.get(field.name)) for field in described.fields)
        yield DescribedTable(_keep_description(described.table, previous), updated)


def _keep_description(row: Any, previous: Any) -> Any:
    if previous is None or previous.metadata.get("described_by") != BY_USER:
        return row
    return row.evolve(description=previous.description, metadata={**row.metadata, "described_by": BY_USER})


def _update_other_keys(
    others: Sequence[TableMetadata], contents: Sequence[TableContent], keys: Mapping[str, Any], now: datetime
) -> Iterator[Operation]:
    """Yield the patches of the foreign keys of other tables: keys that refer to the new tables are replaced."""
    names = {content.name for content in contents}
    for table in others:
        keys_to_new = keys.get(table.table_name, [])
        keys_to_others = [key for key in table.foreign_keys if key["to_table"] not in names]
        if keys_to_new or len(keys_to_others) != len(table.foreign_keys):
            # A column that refers to a table of another file keeps that key.
            used_columns = {key["column"] for key in keys_to_others}
            merged = [*keys_to_others, *(key for key in keys_to_new if key["column"] not in used_columns)]
            if merged != table.foreign_keys:
                values = {"foreign_keys": merged, "updated_at": now}
                yield Patch(TableMetadata, (table.organization_id, table.id), values, version=table.version)


def add_rows(deps: DataDeps, rows: Sequence[Entity]) -> list[Operation]:
    """Return the operations that add rows of one kind, their chunks for search, and their lines of the change feed."""
    operations: list[Operation] = []
    for row, chunks in zip(rows, deps.make_chunks(rows), strict=True):
        operations += [Put(row), *map(Put, chunks), Put(make_announcement(row))]
    return operations


def _replace_version(deps: DataDeps, source: Source, now: datetime) -> list[Operation]:
    """Return the operations that mark an earlier version of a file as replaced and remove it from search."""
    organization = source.organization_id
    where = [Where("source_id", Op.EQ, source.id)]
    table_ids = [str(row[0]) for row in deps.records.columns(TableMetadata, organization, ("id",), where)]
    field_ids = [row.id for rows in list_fields(deps.records, organization, table_ids).values() for row in rows]
    values = {"status": REPLACED, "updated_at": now}
    operations: list[Operation] = [Patch(Source, (organization, source.id), values, version=source.version)]
    for kind, ids in (("source", [source.id]), ("table", table_ids), ("field", field_ids)):
        operations += [Delete(Chunk, key) for key in find_chunk_keys(deps, organization, kind, ids)]
    return [*operations, Put(make_announcement(source))]


def find_chunk_keys(deps: DataDeps, organization: str, kind: str, ids: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the keys of the chunks of rows of one kind."""
    keys: list[tuple[Any, ...]] = []
    for start in range(0, len(ids), _ID_BATCH):
        where = [Where("owner_kind", Op.EQ, kind), Where("owner_id", Op.IN, list(ids[start : start + _ID_BATCH]))]
        keys += deps.records.columns(Chunk, organization, get_table(Chunk).key, where, deleted=True)
    return keys
