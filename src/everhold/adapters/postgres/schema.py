"""Create the schema of a PostgreSQL store, migrate an older one and reject a newer one."""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import psycopg

from everhold import clock
from everhold.adapters.postgres import partitions
from everhold.adapters.postgres.connection import PostgresOptions
from everhold.adapters.postgres.dialect import POSTGRES, create_rule_triggers, list_extras
from everhold.adapters.postgres.partitions import PARTITION_COLUMNS, is_partitioned, require_server
from everhold.adapters.postgres.privileges import grant
from everhold.adapters.postgres.security import EVERYTHING, secure, set_access
from everhold.errors import SchemaTooNew, StoreDamaged, StoreError, StoreReadOnly
from everhold.schema.catalog import TABLES
from everhold.schema.changes import (
    CURRENT,
    VERSIONS,
    AddTable,
    AddUnique,
    SchemaChange,
    Version,
    apply_change,
    compile_changes,
)
from everhold.schema.sql import create_indexes, create_table
from everhold.schema.table import Table

Session = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 150_000
OLDEST_VECTOR = (0, 8, 2)
_SCHEMA_LOCK = 0x5265636F6C6C6563  # an advisory lock; an arbitrary number
_RELATIONS = """SELECT c.relname, coalesce(array_agg(a.attname::text) FILTER (WHERE a.attnum > 0), '{}')
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND c.relname = 'schema_versions'
WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
GROUP BY c.relname"""


def prepare(connection: Session, options: PostgresOptions, role: str | None = None) -> None:
    """Create or migrate the schema, and grant `role` its rights if it is not the owner."""
    _require_server(connection, options)
    version = read_version(connection, options)
    if version > CURRENT:
        raise SchemaTooNew(
            f"{options.place} has schema version {version}, newer than {CURRENT}, the latest known here",
            remedy="upgrade Everhold",
        )
    if options.read_only:
        if version == 0:
            raise StoreReadOnly(f"{options.place} is empty and was opened read-only", remedy="open it for writing once")
        return
    with connection.transaction():  # one transaction: no session must see tables before they are secured
        if version < CURRENT:
            _require_owner(options, role)
            _migrate(connection, options)
        if role is not None:
            _grant_access(connection, options, role)
    _renew_foreign_ids(connection)


def lock_schema(connection: Session) -> None:
    """Take the lock for schema changes until the transaction ends; wait while another process has it."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_SCHEMA_LOCK])


def _require_owner(options: PostgresOptions, role: str | None) -> None:
    if options.row_security and role is None:
        raise StoreError(
            f"{options.place} lacks tables of schema version {CURRENT}, and with row-level security the engine's role "
            "must not own them",
            remedy="open the store once with postgres.owner_url",
        )


def _grant_access(connection: Session, options: PostgresOptions, role: str) -> None:
    with connection.transaction():
        lock_schema(connection)
        if options.row_security:
            secure(connection, role)
        grant(connection, role)


def _require_server(connection: Session, options: PostgresOptions) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(
            f"{options.place} runs PostgreSQL {connection.info.server_version // 10_000}",
            remedy=f"use {OLDEST_SERVER // 10_000} or later",
        )


def read_version(connection: Session, options: PostgresOptions) -> int:
    relations: dict[str, list[str]] = dict(connection.execute(_RELATIONS, binary=True).fetchall())
    if {"version", "name", "applied_at"} <= set(relations.get("schema_versions", ())):
        [(version,)] = connection.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchall()
        return int(version)
    same_names = sorted(relations.keys() & TABLES.keys())
    if same_names:
        raise StoreDamaged(
            f"{options.place} has tables of another program with the same names ({', '.join(same_names[:3])})",
            remedy="choose another database, or another schema by adding ?options=-csearch_path%3Dname to its address",
        )
    return 0


def _migrate(connection: Session, options: PostgresOptions) -> None:
    with connection.transaction():
        lock_schema(connection)
        set_access(connection, EVERYTHING)
        version = read_version(connection, options)  # under the lock: another process may have migrated it just now
        if version == 0:
            _require_vectors(connection, options)
            if options.partitions != "none":
                require_server(connection, options)
            _create_tables(connection, options.partitions)
        elif version < CURRENT:
            upgrade(connection, version, VERSIONS)


def _require_vectors(connection: Session, options: PostgresOptions) -> None:
    [(available, installed)] = connection.execute(
        """SELECT (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
        (SELECT extversion FROM pg_extension WHERE extname = 'vector')"""
    ).fetchall()
    needed = ".".join(map(str, OLDEST_VECTOR))
    if installed is None and available is None:
        raise StoreError(f"{options.place} has no pgvector", remedy=f"install pgvector {needed} or later on the server")
    if _parse_version(installed or available) < OLDEST_VECTOR:
        raise StoreError(
            f"{options.place} has pgvector {installed or available}",
            remedy=f"install {needed} or later on the server and, where "
            "an older one is in use, run ALTER EXTENSION vector UPDATE",
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _create_tables(connection: Session, partition_length: str) -> None:
    statements: list[str] = []
    for table in sort_by_references(TABLES.values()):
        if partition_length != "none" and table.name in PARTITION_COLUMNS:
            statements += [*partitions.create_partitioned_table(table, partition_length), *list_extras(table)]
        else:
            statements += [create_table(table, POSTGRES), *create_indexes(table, POSTGRES), *list_extras(table)]
    for table in TABLES.values():
        statements += create_rule_triggers(table)
    connection.execute(";\n".join(statements).encode())
    for version in VERSIONS:
        _record_version(connection, version)


def sort_by_references(tables: Iterable[Table]) -> list[Table]:
    """Return the tables in an order in which their foreign keys can be created."""
    remaining = {table.name: table for table in tables}
    ordered: list[Table] = []
    while remaining:
        for table in list(remaining.values()):
            targets = {reference.target for reference in table.references if not reference.kind} - {table.name}
            if not targets & remaining.keys():
                ordered.append(remaining.pop(table.name))
    return ordered


def upgrade(connection: Session, since: int, versions: tuple[Version, ...]) -> None:
    """Apply the versions after number `since` to the database."""
    # The schema before each version. Versions up to `since` only build it; they are in the database already.
    tables: dict[str, Table] = {}
    for version in versions:
        if version.number > since:
            added_tables = sort_by_references(
                change.table for change in version.changes if isinstance(change, AddTable)
            )
            other_changes = [change for change in version.changes if not isinstance(change, AddTable)]
            rules_in_tables = [
                change
                for change in other_changes
                if isinstance(change, AddUnique) and _needs_rule_table(connection, change)
            ]
            plain_changes: list[SchemaChange] = [
                *map(AddTable, added_tables),
                *(change for change in other_changes if change not in rules_in_tables),
            ]
            statements = list(compile_changes(tables, plain_changes, POSTGRES))
            for table in added_tables:
                statements += [*list_extras(table), *create_rule_triggers(table)]
            tables_after = reduce(apply_change, plain_changes, tables)
            for rule in rules_in_tables:
                statements += partitions.create_unique_rule(tables_after[rule.table], rule.unique)
            connection.execute(";\n".join(statements).encode())
            _record_version(connection, version)
        for change in version.changes:
            tables = apply_change(tables, change)


def _needs_rule_table(connection: Session, change: AddUnique) -> bool:
    """Return whether a partitioned table cannot enforce the rule with a unique index."""
    column = partitions.PARTITION_COLUMNS.get(change.table)
    return column is not None and column not in change.unique.columns and is_partitioned(connection, change.table)


def _record_version(connection: Session, version: Version) -> None:
    connection.execute(
        "INSERT INTO schema_versions (version, name, applied_at) VALUES (%s, %s, %s)",
        (version.number, version.name, clock.now()),
    )


def _renew_foreign_ids(connection: Session) -> None:
    """Replace transaction ids from the dump of another server. The feed would wait until this server reaches them."""
    with connection.transaction():
        set_access(connection, EVERYTHING)
        connection.execute(
            """UPDATE "outbox" SET "xid" = pg_current_xact_id() WHERE "xid" > pg_snapshot_xmax(pg_current_snapshot())"""
        )
