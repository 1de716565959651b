"""Delete and restore all versions of an uploaded file with their tables."""

from collections.abc import Mapping, Sequence

from everhold import clock
from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.lookup import find_project, list_versions, require_source
from everhold.errors import AlreadyExists, NotFound
from everhold.model import Chunk, FieldMetadata, Scope, Source, TableMetadata
from everhold.model.announcement import make_announcement
from everhold.model.base import Entity
from everhold.model.change_feed import FeedOperation
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Hide, Op, Operation, Put, Unhide, Where

_BATCH = 500  # the maximum number of ids in one query


def find_doomed(deps: DataDeps, scope: Scope, name: str, *, hard: bool) -> list[Source]:
    """Return all versions of the file of a source. With `hard`, they may be hidden."""
    try:
        return list_versions(deps.records, require_source(deps.records, scope, name))
    except NotFound:
        if not hard:
            raise
        return list_versions(deps.records, require_source(deps.records, scope, name, deleted=True), deleted=True)


def count_rows(deps: DataDeps, sources: Sequence[Source]) -> dict[str, int]:
    """Count the live rows that deleting sources would delete, by table."""
    tables, fields = _find_tables_and_fields(deps.records, sources)
    owners = {"source": sources, "table": tables, "field": fields}
    chunks = count_chunks(deps.records, sources[0].organization_id, owners)
    counts = {
        "sources": len(sources), "table_metadata": len(tables), "field_metadata": len(fields), "chunks": chunks
    }  # fmt: skip
    return {table: count for table, count in counts.items() if count}


def count_chunks(records: Records, organization: str, owners: Mapping[str, Sequence[Entity]]) -> int:
    """Count the chunks of rows. `owners` has the rows by their kind."""
    return sum(
        records.count(
            Chunk,
            organization,
            [
                Where("owner_kind", Op.EQ, kind),
                Where("owner_id", Op.IN, [row.id for row in rows[start : start + _BATCH]]),
            ],
        )
        for kind, rows in owners.items()
        for start in range(0, len(rows), _BATCH)
    )


def delete_sources(deps: DataDeps, scope: Scope, sources: Sequence[Source], *, hard: bool) -> None:
    """Hide sources and their tables; with `hard`, purge them and delete their files."""
    now, deletion_id = clock.now(), clock.make_id("del")
    operations: list[Operation] = list(note_purge()) if hard else []
    for source in sources:
        key = (source.organization_id, source.id)
        operations.append(Delete(Source, key) if hard else Hide(Source, key, deletion_id, now))
    lines = _make_announcements(deps.records, sources, "delete")
    log_line = deps.make_line(scope, "delete", sources[0].id, now, hard=hard, versions=len(sources))
    deps.records.commit([*operations, *lines, log_line])
    if hard:
        deps.files.delete(sources[0].organization_id, [source.id for source in sources])


def restore_source(deps: DataDeps, scope: Scope, name: str) -> Source:
    """Restore a deleted source and everything that was deleted with it."""
    source = require_source(deps.records, scope, name, deleted=True)
    where = [Where("project_id", Op.EQ, source.project_id), Where("name", Op.EQ, source.name)]
    if deps.records.count(Source, source.organization_id, where):
        raise AlreadyExists(
            f"a file {source.name!r} has been uploaded since",
            value=source.name,
            remedy="delete that one first",
            table="sources",
        )
    assert source.deletion_id is not None
    versions = [
        row for row in list_versions(deps.records, source, deleted=True) if row.deletion_id == source.deletion_id
    ]
    now = clock.now()
    lines = _make_announcements(deps.records, versions, "restore", deleted=True)
    log_line = deps.make_line(scope, "update", source.id, now, restored=True)
    deps.records.commit([Unhide(source.organization_id, source.deletion_id), *lines, log_line])
    return require_source(deps.records, Scope(organization=scope.organization, project=find_project(scope)), source.id)


def _find_tables_and_fields(
    records: Records, sources: Sequence[Source], *, deleted: bool = False
) -> tuple[list[TableMetadata], list[FieldMetadata]]:
    organization = sources[0].organization_id
    where = [Where("source_id", Op.IN, [source.id for source in sources])]
    tables = records.scan(TableMetadata, organization, where, deleted=deleted)
    return tables, find_fields(records, organization, tables, deleted=deleted)


def find_fields(
    records: Records, organization: str, tables: Sequence[TableMetadata], *, deleted: bool = False
) -> list[FieldMetadata]:
    """Return the columns of tables; with `deleted`, including deleted columns."""
    ids = [table.id for table in tables]
    return [
        row
        for start in range(0, len(ids), _BATCH)
        for row in records.scan(
            FieldMetadata, organization, [Where("table_id", Op.IN, ids[start : start + _BATCH])], deleted=deleted
        )
    ]


def _make_announcements(
    records: Records, sources: Sequence[Source], operation: FeedOperation, *, deleted: bool = False
) -> list[Operation]:
    """Return a line of the change feed for each row, because the search indexes follow single rows."""
    tables, fields = _find_tables_and_fields(records, sources, deleted=deleted)
    return [Put(make_announcement(row, operation)) for row in (*sources, *tables, *fields)]
