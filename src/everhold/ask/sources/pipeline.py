"""Upload a file: copy it, read it in a child process, profile its tables, store the files, commit the rows."""

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

_WRITERS = 16


@dataclass(frozen=True)
class UploadedFile:
    """A source, its tables, and what was detected and repaired when it was read.

    `is_new` is False if the same content was there already. `notes` are sentences, `details` has what was detected:
    "format", "encoding", "separator", "decimal", "dates", "header".
    """

    source: Source
    tables: tuple[DescribedTable, ...]
    is_new: bool
    details: Mapping[str, str]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]


def upload_file(deps: DataDeps, scope: Scope, path: str, name: str | None, report: ReportProgress) -> UploadedFile:
    """Store a file and its tables in the scope's project. A failure leaves nothing behind."""
    with deps.make_folder() as folder:
        original = folder / "original"
        fetched = deps.fetch(path, original, report)
        if name is not None:
            fetched = fetched._replace(name=name)
        project = find_project(scope) or DEFAULT_PROJECT
        latest = _find_current(deps, scope.organization, project, fetched.name)
        if latest is not None and latest.sha256 == fetched.sha256:
            known = _describe_known(deps, latest)
            if _has_files(deps, known):
                return known
        content = deps.reader.read(original, fetched.name, folder / "tables", report)
        report(StepProgress("storing", 0, len(content.tables)))
        source = _draft_source(scope, project, path, fetched, content)
        try:
            return _store(deps, scope, source, content, original, report)
        except BaseException:  # also an interrupt: it must leave no files behind
            if not deps.records.get(Source, scope.organization, [source.id]):
                deps.files.delete(scope.organization, [source.id])
            raise


def _find_current(deps: DataDeps, organization: str, project: str, name: str) -> Source | None:
    where = [Where("project_id", Op.EQ, project), Where("name", Op.EQ, name), Where("status", Op.EQ, READY)]
    rows = deps.records.scan(Source, organization, where, order="created_at", descending=True, limit=1)
    return rows[0] if rows else None


def _describe_known(deps: DataDeps, source: Source) -> UploadedFile:
    where = [Where("source_id", Op.EQ, source.id)]
    tables = deps.records.scan(TableMetadata, source.organization_id, where, order="table_name")
    fields = list_fields(deps.records, source.organization_id, [table.id for table in tables])
    described = tuple(DescribedTable(table, tuple(fields[table.id])) for table in tables)
    details, notes = source.metadata.get("details", {}), source.metadata.get("notes", [])
    return UploadedFile(source, described, False, details, tuple(notes), {})


def _has_files(deps: DataDeps, known: UploadedFile) -> bool:
    """Return whether the files of a source are there; one that was imported from a bundle has none."""
    own = [each.table.metadata.get(name) for each in known.tables for name in ("content", "values")]
    addresses = {str(address) for address in (known.source.sha256, *own) if address is not None}
    return deps.files.has_all(known.source.organization_id, known.source.id, addresses)


def _draft_source(scope: Scope, project: str, path: str, fetched: FetchedFile, content: FileContent) -> Source:
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


_MEDIA_TYPES = {
    "CSV": "text/csv", "TSV": "text/tab-separated-values", "JSON": "application/json", "JSONL": "application/jsonl",
    "Excel": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "Parquet": "application/vnd.apache.parquet", "SQLite": "application/vnd.sqlite3",
}  # fmt: skip


def _store(
    deps: DataDeps, scope: Scope, source: Source, content: FileContent, original: Path, report: ReportProgress
) -> UploadedFile:
    """Store the files of a source, then commit its rows in one transaction."""
    organization = source.organization_id
    deps.files.put_file(organization, source.id, original, source.sha256)
    addresses = _store_tables(deps, source, content.tables)
    drafted = source

    def commit(_: int) -> UploadedFile:
        replaced = _find_current(deps, organization, drafted.project_id, drafted.name)
        source = _number_version(drafted, replaced)
        described, operations = _make_rows(deps, source, content, addresses, replaced)
        report(StepProgress("storing", len(described), len(described)))
        place = Scope(organization=organization, project=source.project_id, user=scope.user)
        line = deps.make_line(scope, "create", source.id, source.created_at, tables=len(described))
        operations = [
            *deps.make_missing_rows(place, source.created_at),
            *add_rows(deps, [source]),
            *add_rows(deps, [each.table for each in described]),
            *add_rows(deps, [field for each in described for field in each.fields]),
            *operations,
            *([] if replaced is None else _replace_version(deps, replaced, source.created_at)),
            line,
        ]
        try:
            deps.records.commit(operations)
        except BrokenReference as error:
            deps.invalidate_rows()
            raise TryAgain("a row of the scope was deleted") from error
        except StaleVersion as error:
            raise TryAgain("another version of the file or another table was uploaded") from error
        return UploadedFile(source, described, True, content.details, _collect_notes(content), content.seconds)

    busy = StoreBusy("the tables of the project keep changing", value=source.name, remedy="try again")
    return retry("upload a file", commit, CONFLICTS, give_up=lambda _: busy)


def _collect_notes(content: FileContent) -> tuple[str, ...]:
    several = len(content.tables) > 1
    own = (f"{table.name}: {note}" if several else note for table in content.tables for note in table.notes)
    return (*content.notes, *own)


def _number_version(source: Source, replaced: Source | None) -> Source:
    """Return a source with the number of its version among the versions of the file."""
    number = 1 if replaced is None else int(replaced.metadata.get("file_version", 1)) + 1
    details: dict[str, Any] = {**source.metadata, "file_version": number}
    if replaced is not None:
        details["replaces"] = replaced.id
    return source.evolve(metadata=details)


def _store_tables(deps: DataDeps, source: Source, tables: Sequence[TableFile]) -> list[dict[str, Any]]:
    """Store the content of each table, and the values of all of them; return the addresses of both for each table."""
    organization = source.organization_id
    values = [{column.name: list(column.values) for column in table.columns} for table in tables]
    address = deps.files.put_values(organization, source.id, values)
    # Most of the time is spent waiting for the disk, which makes several files durable at once.
    with ThreadPoolExecutor(min(_WRITERS, len(tables))) as pool:
        contents = list(pool.map(lambda table: deps.files.put_file(organization, source.id, table.path), tables))
    return [{"content": content, "values": address, "place": number} for number, content in enumerate(contents)]


def _make_rows(
    deps: DataDeps,
    source: Source,
    content: FileContent,
    addresses: Sequence[Mapping[str, Any]],
    replaced: Source | None,
) -> tuple[tuple[DescribedTable, ...], list[Operation]]:
    """Return the rows of the tables, and the operations that let tables of other files refer to them."""
    scope = Scope(organization=source.organization_id, project=source.project_id)
    # Tables of databases are not joined with those of files.
    present = [table for table in list_tables(deps.records, scope) if table.source_id is not None]
    others = [table for table in present if replaced is None or table.source_id != replaced.id]
    contents = _name_tables(content.tables, others)
    keys = infer_keys(contents, read_contents(deps, others))
    described = tuple(
        make_table_rows(source, table, own, keys.get(own.name, []), files)
        for table, own, files in zip(content.tables, contents, addresses, strict=True)
    )
    if replaced is not None:
        former = [table for table in present if table.source_id == replaced.id]
        described = tuple(keep_descriptions(deps, described, former))
    return described, list(_link_others(others, contents, keys, source.created_at))


def _name_tables(tables: Sequence[TableFile], others: Sequence[TableMetadata]) -> list[TableContent]:
    """Return the tables under names that no other table of the project has."""
    taken = {table.table_name.lower() for table in others}
    names: dict[str, str] = {}
    for table in tables:
        name, number = table.name, 1
        while name.lower() in taken:
            number += 1
            name = f"{table.name}_{number}"
        taken.add(name.lower())
        names[table.name] = name
    return [make_content(_rename_targets(table, names), names[table.name]) for table in tables]


def _rename_targets(table: TableFile, names: Mapping[str, str]) -> TableFile:
    keys = tuple(replace(key, to_table=names.get(key.to_table, key.to_table)) for key in table.foreign_keys)
    return replace(table, foreign_keys=keys)


def keep_descriptions(
    deps: DataDeps, described: Sequence[DescribedTable], former: Sequence[TableMetadata]
) -> Iterator[DescribedTable]:
    """Yield tables with the descriptions that users wrote for those of the same names before."""
    by_name = {table.table_name: table for table in former}
    fields = list_fields(deps.records, former[0].organization_id, [table.id for table in former]) if former else {}
    for each in described:
        before = by_name.get(each.table.table_name)
        written = {row.name: row for row in fields.get(before.id, ())} if before is not None else {}
        own = tuple(_keep_description(field, written.get(field.name)) for field in each.fields)
        yield DescribedTable(_keep_description(each.table, before), own)


def _keep_description(row: Any, before: Any) -> Any:
    if before is None or before.metadata.get("described_by") != BY_USER:
        return row
    return row.evolve(description=before.description, metadata={**row.metadata, "described_by": BY_USER})


def _link_others(
    others: Sequence[TableMetadata], contents: Sequence[TableContent], keys: Mapping[str, Any], now: datetime
) -> Iterator[Operation]:
    """Yield the operations that add keys to new tables to those that other tables of the project have."""
    names = {content.name for content in contents}
    for table in others:
        to_new = keys.get(table.table_name, [])
        kept = [key for key in table.foreign_keys if key["to_table"] not in names]
        if to_new or len(kept) != len(table.foreign_keys):
            known = {key["column"] for key in kept}
            merged = [*kept, *(key for key in to_new if key["column"] not in known)]
            if merged != table.foreign_keys:
                values = {"foreign_keys": merged, "updated_at": now}
                yield Patch(TableMetadata, (table.organization_id, table.id), values, version=table.version)


def add_rows(deps: DataDeps, rows: Sequence[Entity]) -> list[Operation]:
    """Return the operations that add rows of one kind, with the chunks by which they are found."""
    chunks = deps.make_chunks(rows)
    operations: list[Operation] = []
    for row, own in zip(rows, chunks, strict=True):
        operations += [Put(row), *map(Put, own), Put(make_announcement(row))]
    return operations


def _replace_version(deps: DataDeps, source: Source, now: datetime) -> list[Operation]:
    """Return the operations that keep an earlier version of a file without being found any more."""
    organization = source.organization_id
    where = [Where("source_id", Op.EQ, source.id)]
    table_ids = [str(row[0]) for row in deps.records.columns(TableMetadata, organization, ("id",), where)]
    fields = [row.id for rows in list_fields(deps.records, organization, table_ids).values() for row in rows]
    values = {"status": REPLACED, "updated_at": now}
    operations: list[Operation] = [Patch(Source, (organization, source.id), values, version=source.version)]
    for kind, ids in (("source", [source.id]), ("table", table_ids), ("field", fields)):
        operations += [Delete(Chunk, key) for key in find_chunk_keys(deps, organization, kind, ids)]
    return [*operations, Put(make_announcement(source))]


def find_chunk_keys(deps: DataDeps, organization: str, kind: str, ids: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the keys of the chunks of rows of one kind."""
    keys: list[tuple[Any, ...]] = []
    for start in range(0, len(ids), 500):
        where = [Where("owner_kind", Op.EQ, kind), Where("owner_id", Op.IN, list(ids[start : start + 500]))]
        keys += deps.records.columns(Chunk, organization, get_table(Chunk).key, where, deleted=True)
    return keys
