"""The versions of the schema. Each is a list of changes, and a change is a value.

A new store gets the tables of the catalog. An older store is migrated: it gets the changes of the versions that it does
not have yet. A test checks that applying every version to an empty store gives the catalog.

To change the schema, change the entity or the catalog, and append a `Version` with the same change. Until the first
release there is only one version, which `python -m everhold.schema.freeze` writes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from everhold.schema.sql import (
    Dialect,
    create_indexes,
    create_lookup,
    create_table,
    create_unique,
    define_column,
    quote,
)
from everhold.schema.table import Column, Kind, Lookup, Reference, Table, Unique

FIRST_TABLES = "first_tables.json"


class AddTable(NamedTuple):
    """Adds a table."""

    table: Table


class AddColumn(NamedTuple):
    """Adds a column. Existing rows get `default`, which is required for a column that is not nullable."""

    table: str
    column: Column
    default: str | int | float | None = None


class AddLookup(NamedTuple):
    """Adds an index. It speeds up queries and changes no result."""

    table: str
    lookup: Lookup


class AddUnique(NamedTuple):
    """Adds a unique constraint."""

    table: str
    unique: Unique


SchemaChange = AddTable | AddColumn | AddLookup | AddUnique


class Version(NamedTuple):
    """One version of the schema: the changes that turn the version before it into this one."""

    number: int
    name: str
    changes: Iterable[SchemaChange]


def apply_change(tables: Mapping[str, Table], change: SchemaChange) -> dict[str, Table]:
    """Return the tables by name as they are after one change."""
    if isinstance(change, AddTable):
        return {**tables, change.table.name: change.table}
    table = tables[change.table]
    match change:
        case AddColumn(_, column, _):
            table = replace(table, columns=(*table.columns, column))
        case AddLookup(_, lookup):
            table = replace(table, lookups=(*table.lookups, lookup))
        case AddUnique(_, unique):
            table = replace(table, uniques=(*table.uniques, unique))
    return {**tables, table.name: table}


def compile_changes(tables: Mapping[str, Table], changes: Iterable[SchemaChange], dialect: Dialect) -> Iterator[str]:
    """Yield the SQL statements that apply the changes to a database with these tables.

    A dialect without `has_constraints` gets no indexes either.
    """
    for change in changes:
        match change:
            case AddTable(table):
                yield create_table(table, dialect)
                yield from create_indexes(table, dialect)
            case AddColumn(name, column, default):
                default_clause = f" DEFAULT {_format_literal(default, column, dialect)}" if default is not None else ""
                yield f"ALTER TABLE {quote(name)} ADD COLUMN {define_column(column, dialect)}{default_clause}"
            case AddLookup(name, lookup) if dialect.has_constraints:
                yield create_lookup(tables[name], lookup, dialect)
            case AddUnique(name, unique) if dialect.has_constraints:
                yield create_unique(tables[name], unique, dialect)
        tables = apply_change(tables, change)


def _format_literal(value: str | int | float, column: Column, dialect: Dialect) -> str:
    if column.kind is Kind.BOOLEAN:
        return dialect.true if value else dialect.false
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


class _FirstChanges:
    """The changes of version 1: an `AddTable` for each table.

    Their file is read when they are iterated over, and not on import, because most processes create no store.
    """

    def __iter__(self) -> Iterator[SchemaChange]:
        text = Path(__file__).with_name(FIRST_TABLES).read_text("utf-8")
        return (AddTable(decode_table(value)) for value in json.loads(text))


def encode_table(table: Table) -> dict[str, Any]:
    """Return a table as JSON objects and lists."""
    value = asdict(table)
    # The first two are computed from the columns. `internal` says nothing about how rows are stored.
    del value["by_name"], value["names"], value["internal"]
    return value


def decode_table(value: Mapping[str, Any]) -> Table:
    """Return the table that `encode_table` turned into this value."""
    return Table(
        name=value["name"],
        columns=tuple(
            Column(**{**column, "kind": Kind(column["kind"]), "one_of": tuple(column["one_of"])})
            for column in value["columns"]
        ),
        key=tuple(value["key"]),
        lookups=tuple(Lookup(tuple(lookup["columns"]), lookup.get("only_false", False)) for lookup in value["lookups"]),
        uniques=tuple(Unique(**{**unique, "columns": tuple(unique["columns"])}) for unique in value["uniques"]),
        references=tuple(_decode_reference(reference) for reference in value["references"]),
        generated=value["generated"],
    )


def _decode_reference(value: Mapping[str, Any]) -> Reference:
    return Reference(
        tuple(value["columns"]),
        value["target"],
        tuple(value["target_columns"]),
        value["on_delete"],
        tuple(value["kind"]) if value["kind"] else None,
    )


VERSIONS: tuple[Version, ...] = (Version(1, "first", _FirstChanges()),)
CURRENT = VERSIONS[-1].number
