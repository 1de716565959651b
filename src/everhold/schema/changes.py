"""The versions of the schema, each a list of changes as values.

A new store is created from the catalog. An older store is migrated by the changes that it does not have yet. All
changes applied to an empty store give the catalog; a test proves it. To add to the schema, change the entity or the
catalog and append a `Version` with the change. Until the first release there is only one version, which
`python -m everhold.schema.freeze` writes.
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
    """Adds an index to find rows by."""

    table: str
    lookup: Lookup


class AddUnique(NamedTuple):
    """Adds a unique rule."""

    table: str
    unique: Unique


SchemaChange = AddTable | AddColumn | AddLookup | AddUnique


class Version(NamedTuple):
    """A release of the schema."""

    number: int
    name: str
    changes: Iterable[SchemaChange]


def apply_change(tables: Mapping[str, Table], change: SchemaChange) -> dict[str, Table]:
    """Return the tables after one change."""
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
    """Yield the SQL statements that apply the changes to a database with these tables."""
    for change in changes:
        match change:
            case AddTable(table):
                yield create_table(table, dialect)
                yield from create_indexes(table, dialect)
            case AddColumn(name, column, default):
                default_clause = f" DEFAULT {_literal(default, column, dialect)}" if default is not None else ""
                yield f"ALTER TABLE {quote(name)} ADD COLUMN {define_column(column, dialect)}{default_clause}"
            case AddLookup(name, lookup) if not dialect.has_no_rules:
                yield create_lookup(tables[name], lookup, dialect)
            case AddUnique(name, unique) if not dialect.has_no_rules:
                yield create_unique(tables[name], unique, dialect)
        tables = apply_change(tables, change)


def _literal(value: str | int | float, column: Column, dialect: Dialect) -> str:
    if column.kind is Kind.BOOLEAN:
        return dialect.true if value else dialect.false
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


class _FirstChanges:
    """The tables of the first version. Their file is read when they are iterated over: few processes create a store."""

    def __iter__(self) -> Iterator[SchemaChange]:
        text = Path(__file__).with_name(FIRST_TABLES).read_text("utf-8")
        return (AddTable(table_from_json(value)) for value in json.loads(text))


def table_to_json(table: Table) -> dict[str, Any]:
    value = asdict(table)
    del value["by_name"], value["names"], value["internal"]
    return value


def table_from_json(value: Mapping[str, Any]) -> Table:
    return Table(
        name=value["name"],
        columns=tuple(
            Column(**{**column, "kind": Kind(column["kind"]), "one_of": tuple(column["one_of"])})
            for column in value["columns"]
        ),
        key=tuple(value["key"]),
        lookups=tuple(Lookup(tuple(lookup["columns"]), lookup.get("only_false", False)) for lookup in value["lookups"]),
        uniques=tuple(Unique(**{**unique, "columns": tuple(unique["columns"])}) for unique in value["uniques"]),
        references=tuple(_reference_from_json(reference) for reference in value["references"]),
        generated=value["generated"],
    )


def _reference_from_json(value: Mapping[str, Any]) -> Reference:
    return Reference(
        tuple(value["columns"]),
        value["target"],
        tuple(value["target_columns"]),
        value["on_delete"],
        tuple(value["kind"]) if value["kind"] else None,
    )


VERSIONS: tuple[Version, ...] = (Version(1, "first", _FirstChanges()),)
CURRENT = VERSIONS[-1].number
