"""Compile the row changes of a commit to SQL, many rows per statement.

Binding one list per column is much faster in DuckDB than one statement per row or one placeholder per value. An update
writes only the columns that differ, because DuckDB stores each column separately.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from everhold.adapters.duckdb.dialect import DUCKDB
from everhold.model.base import Row
from everhold.schema.catalog import ENTITIES, TABLES
from everhold.schema.codec import Codec
from everhold.schema.planning import RowChange
from everhold.schema.sql import quote, quote_names
from everhold.schema.statements import Compiler, SqlStatement

_ROWS_PER_STATEMENT = 10_000


class _StatementShape(NamedTuple):
    """The kind, table and columns of a statement. Changes of the same shape share one statement."""

    kind: Literal["insert", "update", "delete"]
    table: str
    names: tuple[str, ...] = ()


def compile_changes(compiler: Compiler, changes: Iterable[RowChange]) -> Iterator[SqlStatement]:
    """Yield the statements for the changes. Each row changes at most once, so the order does not matter."""
    rows_by_shape: dict[_StatementShape, list[list[Any]]] = {}
    for change in changes:
        shape, values = _classify(compiler.codec(ENTITIES[change.table.name]), change)
        if shape.kind != "update" or shape.names:
            rows_by_shape.setdefault(shape, []).append(values)
    for shape, rows in rows_by_shape.items():
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            batch = rows[start : start + _ROWS_PER_STATEMENT]
            yield SqlStatement(_compile_shape(shape, len(batch) > 1), bind_rows(batch))


def _classify(codec: Codec[Any], change: RowChange) -> tuple[_StatementShape, list[Any]]:
    table, key, before, after = change
    if after is None:
        return _StatementShape("delete", table.name), _encode_key(codec, key)
    if before is None:
        generated = (table.generated,) if table.generated else ()
        values = [*codec.encode(after), *(after.__dict__[name] for name in generated)]
        return _StatementShape("insert", table.name, (*codec.written_columns, *generated)), values
    changes = _find_difference(codec, before, after)
    return _StatementShape("update", table.name, tuple(changes)), [*_encode_key(codec, key), *changes.values()]


def _encode_key(codec: Codec[Any], key: Sequence[Any]) -> list[Any]:
    return [codec.encode_value(name, value) for name, value in zip(codec.table.key, key, strict=True)]


def _find_difference(codec: Codec[Any], before: Row, after: Row) -> dict[str, Any]:
    """Return the values that differ. They are compared after encoding, because 1, 1.0 and True are equal in Python."""
    pairs = zip(codec.written_columns, codec.encode(before), codec.encode(after), strict=True)
    return {name: new for name, old, new in pairs if old != new}


@cache
def _compile_shape(shape: _StatementShape, many: bool) -> str:
    kind, table, names = shape
    key = TABLES[table].key
    key_condition = " AND ".join(f"{quote(name)} = bound.v{index}" for index, name in enumerate(key))
    match kind:
        case "insert":
            return f"INSERT INTO {quote(table)} ({quote_names(names)}) {select_values(table, names, many)}"
        case "update":
            assignments = ", ".join(f"{quote(name)} = bound.v{index}" for index, name in enumerate(names, len(key)))
            rows = select_values(table, (*key, *names), many)
            return f"UPDATE {quote(table)} SET {assignments} FROM ({rows}) AS bound WHERE {key_condition}"
        case "delete":
            return (
                f"DELETE FROM {quote(table)} USING ({select_values(table, key, many)}) AS bound WHERE {key_condition}"
            )


def select_values(table: str, names: Sequence[str], many: bool = True) -> str:
    """Return a query for bound values as columns v0, v1, …; if `many`, the value of each column is a list."""
    types = [DUCKDB.spell_type(TABLES[table].by_name[name]) for name in names]
    values = [f"unnest(?::{type_name}[])" if many else f"?::{type_name}" for type_name in types]
    return "SELECT " + ", ".join(f"{value} AS v{index}" for index, value in enumerate(values))


def bind_rows(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return rows as the values that `select_values` binds."""
    return list(rows[0]) if len(rows) == 1 else [list(column) for column in zip(*rows, strict=True)]
