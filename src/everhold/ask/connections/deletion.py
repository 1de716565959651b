"""Delete a connection with its tables, and restore it. The database itself is never touched."""

from collections.abc import Sequence

from everhold import clock
from everhold.ask.connections.lookup import require_connection
from everhold.ask.sources.deletion import count_chunks, find_fields
from everhold.ask.sources.deps import DataDeps
from everhold.errors import AlreadyExists, NotFound
from everhold.model import Connection, FieldMetadata, Scope, TableMetadata
from everhold.model.announcement import make_announcement
from everhold.model.change_feed import FeedOperation
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Hide, Op, Operation, Put, Unhide, Where


def find_doomed_connection(deps: DataDeps, scope: Scope, name: str, *, hard: bool) -> Connection:
    """Return the connection to delete. With `hard`, it may be a hidden connection."""
    try:
        return require_connection(deps.records, scope, name)
    except NotFound:
        if not hard:
            raise
        return require_connection(deps.records, scope, name, deleted=True)


def count_connection_rows(deps: DataDeps, connection: Connection) -> dict[str, int]:
    """Count the live rows that deleting a connection would delete, by table."""
    tables, fields = _find_tables_and_fields(deps.records, connection)
    chunks = count_chunks(deps.records, connection.organization_id, {"table": tables, "field": fields})
    counts = {"connections": 1, "table_metadata": len(tables), "field_metadata": len(fields), "chunks": chunks}
    return {table: count for table, count in counts.items() if count}


def delete_connection(deps: DataDeps, scope: Scope, connection: Connection, *, hard: bool) -> None:
    """Hide a connection and its tables; with `hard`, purge them and their stored values."""
    now, key = clock.now(), (connection.organization_id, connection.id)
    operations: list[Operation] = [*note_purge(), Delete(Connection, key)] if hard else []
    if not hard:
        operations.append(Hide(Connection, key, clock.make_id("del"), now))
    lines = _make_announcements(deps.records, connection, "delete")
    log_line = deps.make_line(scope, "delete", connection.id, now, hard=hard)
    deps.records.commit([*operations, *lines, log_line])
    if hard:
        deps.files.delete(connection.organization_id, [connection.id])


def restore_connection(deps: DataDeps, scope: Scope, name: str) -> Connection:
    """Restore a deleted connection with its tables."""
    connection = require_connection(deps.records, scope, name, deleted=True)
    where = [Where("project_id", Op.EQ, connection.project_id), Where("name", Op.EQ, connection.name)]
    if deps.records.count(Connection, connection.organization_id, where):
        raise AlreadyExists(
            f"another database has been connected as {connection.name!r} since",
            value=connection.name,
            remedy="delete that connection first",
            table="connections",
        )
    assert connection.deletion_id is not None
    lines = _make_announcements(deps.records, connection, "restore", deleted=True)
    log_line = deps.make_line(scope, "update", connection.id, clock.now(), restored=True)
    deps.records.commit([Unhide(connection.organization_id, connection.deletion_id), *lines, log_line])
    return require_connection(deps.records, scope, connection.id)


def _find_tables_and_fields(
    records: Records, connection: Connection, *, deleted: bool = False
) -> tuple[list[TableMetadata], list[FieldMetadata]]:
    where = [Where("connection_id", Op.EQ, connection.id)]
    tables = records.scan(TableMetadata, connection.organization_id, where, deleted=deleted)
    return tables, find_fields(records, connection.organization_id, tables, deleted=deleted)


def _make_announcements(
    records: Records, connection: Connection, operation: FeedOperation, *, deleted: bool = False
) -> Sequence[Operation]:
    tables, fields = _find_tables_and_fields(records, connection, deleted=deleted)
    return [Put(make_announcement(row, operation)) for row in (*tables, *fields)]
