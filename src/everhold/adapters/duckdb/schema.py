"""Creating a DuckDB store, upgrading an older one, refusing a newer one.

Besides the catalog's tables there is one of the numbers drawn last, so that none is drawn again when its row is gone.
"""

import duckdb

from everhold import clock
from everhold.adapters.duckdb.connection import DuckdbOptions
from everhold.adapters.duckdb.dialect import DUCKDB
from everhold.errors import SchemaTooNew, StoreDamaged
from everhold.schema.catalog import TABLES
from everhold.schema.changes import CURRENT, VERSIONS, AddTable, Version, apply_change, compile_changes
from everhold.schema.sql import create_table
from everhold.schema.table import Kind, Table

_DRAWN_NUMBERS = 'CREATE TABLE "drawn_numbers" ("table_name" VARCHAR NOT NULL, "number" BIGINT NOT NULL)'
DRAWN = 'SELECT "table_name", "number" FROM "drawn_numbers"'
DRAW = 'UPDATE "drawn_numbers" SET "number" = ? WHERE "table_name" = ?'


def prepare(connection: duckdb.DuckDBPyConnection, options: DuckdbOptions) -> None:
    """Leaves the file with the current schema."""
    version = stored_version(connection)
    if version > CURRENT:
        raise SchemaTooNew(
            f"{options.path} has schema version {version}, newer than the {CURRENT} known here",
            remedy="upgrade Everhold",
        )
    if version < CURRENT and not options.read_only:
        _bring_up(connection, version)


def stored_version(connection: duckdb.DuckDBPyConnection) -> int:
    names = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "schema_versions" in names:
        found = connection.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchall()
        return int(found[0][0])
    if names:
        raise StoreDamaged(
            f"the file holds tables of another program ({', '.join(sorted(names)[:3])}…)", remedy="choose another file"
        )
    return 0


def _bring_up(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    connection.execute("BEGIN")
    try:
        if version == 0:
            _create(connection)
        else:
            upgrade(connection, version, VERSIONS)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(_DRAWN_NUMBERS)
    for table in TABLES.values():
        connection.execute(create_table(table, DUCKDB))
        _begin_drawing(connection, table)
    for version in VERSIONS:
        _record(connection, version)


def upgrade(connection: duckdb.DuckDBPyConnection, since: int, versions: tuple[Version, ...]) -> None:
    """Applies the versions that the store has not had."""
    tables: dict[str, Table] = {}
    for version in versions:
        if version.number > since:
            for statement in compile_changes(tables, version.changes, DUCKDB):
                connection.execute(statement)
            for change in version.changes:
                if isinstance(change, AddTable):
                    _begin_drawing(connection, change.table)
            _record(connection, version)
        for change in version.changes:
            tables = apply_change(tables, change)


def _begin_drawing(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    if table.generated:
        connection.execute('INSERT INTO "drawn_numbers" VALUES (?, 0)', (table.name,))


def _record(connection: duckdb.DuckDBPyConnection, version: Version) -> None:
    connection.execute(
        "INSERT INTO schema_versions (version, name, applied_at) VALUES (?, ?, ?)",
        (version.number, version.name, DUCKDB.encoders[Kind.TIME](clock.now())),
    )
