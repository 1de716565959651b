"""Create the schema of a DuckDB store, migrate an older one and reject a newer one.

In addition to the catalog's tables, one table stores the last generated numbers, so that no number is used again after
its row was deleted.
"""

from contextlib import suppress

import duckdb

from everhold import clock
from everhold.adapters.duckdb.connection import DuckdbOptions
from everhold.adapters.duckdb.dialect import DUCKDB
from everhold.errors import SchemaTooNew, StoreDamaged
from everhold.schema.catalog import TABLES
from everhold.schema.changes import CURRENT, VERSIONS, AddTable, Version, apply_change, compile_changes
from everhold.schema.sql import create_table
from everhold.schema.table import Kind, Table

_CREATE_NUMBERS = 'CREATE TABLE "drawn_numbers" ("table_name" VARCHAR NOT NULL, "number" BIGINT NOT NULL)'
READ_NUMBERS = 'SELECT "table_name", "number" FROM "drawn_numbers"'
SAVE_NUMBER = 'UPDATE "drawn_numbers" SET "number" = ? WHERE "table_name" = ?'


def prepare(connection: duckdb.DuckDBPyConnection, options: DuckdbOptions) -> None:
    """Create or migrate the schema. Raise SchemaTooNew if a newer version of Everhold wrote the file."""
    version = read_version(connection)
    if version > CURRENT:
        raise SchemaTooNew(
            f"{options.path} has schema version {version}, newer than {CURRENT}, the latest known here",
            remedy="upgrade Everhold",
        )
    if version < CURRENT and not options.read_only:
        _migrate(connection, version)


def read_version(connection: duckdb.DuckDBPyConnection) -> int:
    names = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "schema_versions" in names:
        rows = connection.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchall()
        return int(rows[0][0])
    if names:
        raise StoreDamaged(
            f"the file has tables of another program ({', '.join(sorted(names)[:3])}…)", remedy="choose another file"
        )
    return 0


def _migrate(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    connection.execute("BEGIN")
    try:
        if version == 0:
            _create_tables(connection)
        else:
            upgrade(connection, version, VERSIONS)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.Error):  # a commit that fails may have ended the transaction
            connection.execute("ROLLBACK")
        raise


def _create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(_CREATE_NUMBERS)
    for table in TABLES.values():
        connection.execute(create_table(table, DUCKDB))
        _start_numbers(connection, table)
    for version in VERSIONS:
        _record_version(connection, version)


def upgrade(connection: duckdb.DuckDBPyConnection, since: int, versions: tuple[Version, ...]) -> None:
    """Apply the versions after number `since` to the file."""
    # The schema before each version. Versions up to `since` only build it; they are in the file already.
    tables: dict[str, Table] = {}
    for version in versions:
        if version.number > since:
            for statement in compile_changes(tables, version.changes, DUCKDB):
                connection.execute(statement)
            for change in version.changes:
                if isinstance(change, AddTable):
                    _start_numbers(connection, change.table)
            _record_version(connection, version)
        for change in version.changes:
            tables = apply_change(tables, change)


def _start_numbers(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    if table.generated:
        connection.execute('INSERT INTO "drawn_numbers" VALUES (?, 0)', (table.name,))


def _record_version(connection: duckdb.DuckDBPyConnection, version: Version) -> None:
    connection.execute(
        "INSERT INTO schema_versions (version, name, applied_at) VALUES (?, ?, ?)",
        (version.number, version.name, DUCKDB.encoders[Kind.TIME](clock.now())),
    )
