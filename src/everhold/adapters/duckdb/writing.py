"""Compiles the changes of a plan to SQL, many rows per statement.

DuckDB reads one list per column much faster than one statement per row or one placeholder per value. Of a changed row
only the columns that differ are written, because DuckDB stores each column separately.
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

_MAX_ROWS = 10_000


class _Form(NamedTuple):
    """A kind of change to rows of a table, and the columns that it sets."""

    act: Literal["insert", "update", "delete"]
    table: str
    names: tuple[str, ...] = ()


def compile_changes(compiler: Compiler, changes: Iterable[RowChange]) -> Iterator[SqlStatement]:
    """Yield the statements for the changes. No two changes are about the same row, so their order does not matter."""
    rows_by_form: dict[_Form, list[list[Any]]] = {}
    for change in changes:
        form, values = _classify(compiler.codec(ENTITIES[change.table.name]), change)
        if form.act != "update" or form.names:
            rows_by_form.setdefault(form, []).append(values)
    for form, rows in rows_by_form.items():
        for start in range(0, len(rows), _MAX_ROWS):
            batch = rows[start : start + _MAX_ROWS]
            yield SqlStatement(_compile_form(form, len(batch) > 1), bind_rows(batch))


def _classify(codec: Codec[Any], change: RowChange) -> tuple[_Form, list[Any]]:
    table, key, before, after = change
    if after is None:
        return _Form("delete", table.name), _encode_key(codec, key)
    if before is None:
        generated = (table.generated,) if table.generated else ()
        values = [*codec.encode(after), *(after.__dict__[name] for name in generated)]
        return _Form("insert", table.name, (*codec.written_columns, *generated)), values
    changed = _find_difference(codec, before, after)
    return _Form("update", table.name, tuple(changed)), [*_encode_key(codec, key), *changed.values()]


def _encode_key(codec: Codec[Any], key: Sequence[Any]) -> list[Any]:
    return [codec.encode_value(name, value) for name, value in zip(codec.table.key, key, strict=True)]


def _find_difference(codec: Codec[Any], before: Row, after: Row) -> dict[str, Any]:
    """Return the stored values that change. Compared as stored, because in Python 1, 1.0 and True are equal."""
    pairs = zip(codec.written_columns, codec.encode(before), codec.encode(after), strict=True)
    return {name: becomes for name, was, becomes in pairs if was != becomes}


@cache
def _compile_form(form: _Form, many: bool) -> str:
    act, table, names = form
    key = TABLES[table].key
    keyed = " AND ".join(f"{quote(name)} = given.v{at}" for at, name in enumerate(key))
    match act:
        case "insert":
            return f"INSERT INTO {quote(table)} ({quote_names(names)}) {select_values(table, names, many)}"
        case "update":
            sets = ", ".join(f"{quote(name)} = given.v{at}" for at, name in enumerate(names, len(key)))
            rows = select_values(table, (*key, *names), many)
            return f"UPDATE {quote(table)} SET {sets} FROM ({rows}) AS given WHERE {keyed}"
        case "delete":
            return f"DELETE FROM {quote(table)} USING ({select_values(table, key, many)}) AS given WHERE {keyed}"


def select_values(table: str, names: Sequence[str], many: bool = True) -> str:
    """Return a query for bound values as columns v0, v1, …: a list for each name, or a single value."""
    types = [DUCKDB.spell_type(TABLES[table].by_name[name]) for name in names]
    marks = [f"unnest(?::{type_name}[])" if many else f"?::{type_name}" for type_name in types]
    return "SELECT " + ", ".join(f"{mark} AS v{at}" for at, mark in enumerate(marks))


def bind_rows(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return rows as the values that `select_values` binds."""
    return list(rows[0]) if len(rows) == 1 else [list(column) for column in zip(*rows, strict=True)]
