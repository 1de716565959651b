"""Create the schema of a SQLite store, migrate an older one and reject a newer one."""

import sqlite3

from everhold import clock
from everhold.adapters.sqlite import words
from everhold.adapters.sqlite.connection import SqliteOptions, retry_locked
from everhold.adapters.sqlite.dialect import SQLITE, create_rule_triggers
from everhold.errors import SchemaTooNew, StoreDamaged
from everhold.schema.catalog import TABLES
from everhold.schema.changes import CURRENT, VERSIONS, AddTable, Version, apply_change, compile_changes
from everhold.schema.sql import create_indexes, create_table
from everhold.schema.table import Table


def prepare(connection: sqlite3.Connection, options: SqliteOptions) -> None:
    """Create or migrate the schema. Raise SchemaTooNew if a newer version of Everhold wrote the file."""
    version = read_version(connection)
    if version > CURRENT:
        raise SchemaTooNew(
            f"{options.path} has schema version {version}, newer than {CURRENT}, the latest known here",
            remedy="upgrade Everhold",
        )
    if options.read_only:
        return
    retry_locked(lambda: _set_file_format(connection), options.busy_seconds)
    if version < CURRENT:
        _migrate(connection)


def read_version(connection: sqlite3.Connection) -> int:
    """Return the file's schema version, 0 if it is empty. Raise StoreDamaged if another program created its tables."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "schema_versions" in names:
        return int(connection.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchone()[0])
    if names:
        raise StoreDamaged(
            f"the file has tables of another program ({', '.join(sorted(names)[:3])}…)", remedy="choose another file"
        )
    return 0


def _set_file_format(connection: sqlite3.Connection) -> None:
    """Set incremental vacuum and WAL, at every start: a copy made by another tool may have lost the journal mode."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = read_version(connection)  # under the lock: another process may have migrated the file just now
        if version == 0:
            _create_tables(connection)
        elif version < CURRENT:
            upgrade(connection, version, VERSIONS)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _create_tables(connection: sqlite3.Connection) -> None:
    for table in TABLES.values():
        connection.execute(create_table(table, SQLITE))
        for statement in create_indexes(table, SQLITE):
            connection.execute(statement)
    for statement in words.TABLES:
        connection.execute(statement)
    for table in TABLES.values():
        for statement in create_rule_triggers(table):
            connection.execute(statement)
    for statement in words.create_triggers():
        connection.execute(statement)
    for version in VERSIONS:
        _record_version(connection, version)


def upgrade(connection: sqlite3.Connection, since: int, versions: tuple[Version, ...]) -> None:
    """Apply the versions after number `since` to the file."""
    # The schema before each version. Versions up to `since` only build it; they are in the file already.
    tables: dict[str, Table] = {}
    for version in versions:
        if version.number > since:
            for statement in compile_changes(tables, version.changes, SQLITE):
                connection.execute(statement)
            for change in version.changes:
                if isinstance(change, AddTable):
                    for statement in create_rule_triggers(change.table):
                        connection.execute(statement)
            _record_version(connection, version)
        for change in version.changes:
            tables = apply_change(tables, change)


def _record_version(connection: sqlite3.Connection, version: Version) -> None:
    connection.execute(
        "INSERT INTO schema_versions (version, name, applied_at) VALUES (?, ?, ?)",
        (version.number, version.name, clock.micros(clock.now())),
    )
