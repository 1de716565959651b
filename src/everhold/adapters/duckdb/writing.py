"""The changes of a plan as SQL, many rows to a statement.

DuckDB takes a list per column far more quickly than a statement per row or a mark per value; a single row is bound as
it is. Of a row that stays, only the columns that differ are written, since each column is stored apart.
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

_MOST_ROWS = 10_000


class _Form(NamedTuple):
    """What is done to some rows of a table: which columns are set, or that the rows go."""

    act: Literal["insert", "update", "delete"]
    table: str
    names: tuple[str, ...] = ()


def statements(compiler: Compiler, changes: Iterable[RowChange]) -> Iterator[SqlStatement]:
    """What makes the changes. No two are about the same row, so their order does not matter."""
    alike: dict[_Form, list[list[Any]]] = {}
    for change in changes:
        form, values = _form(compiler.codec(ENTITIES[change.table.name]), change)
        if form.act != "update" or form.names:
            alike.setdefault(form, []).append(values)
    for form, rows in alike.items():
        for start in range(0, len(rows), _MOST_ROWS):
            some = rows[start : start + _MOST_ROWS]
            yield SqlStatement(_sql(form, len(some) > 1), bound(some))


def _form(codec: Codec[Any], change: RowChange) -> tuple[_Form, list[Any]]:
    table, key, before, after = change
    if after is None:
        return _Form("delete", table.name), _encoded_key(codec, key)
    if before is None:
        generated = (table.generated,) if table.generated else ()
        values = [*codec.encode(after), *(after.__dict__[name] for name in generated)]
        return _Form("insert", table.name, (*codec.written_columns, *generated)), values
    changed = _difference(codec, before, after)
    return _Form("update", table.name, tuple(changed)), [*_encoded_key(codec, key), *changed.values()]


def _encoded_key(codec: Codec[Any], key: Sequence[Any]) -> list[Any]:
    return [codec.encode_value(name, value) for name, value in zip(codec.table.key, key, strict=True)]


def _difference(codec: Codec[Any], before: Row, after: Row) -> dict[str, Any]:
    """The values that change, as they are stored: Python takes 1 for 1.0 and True inside JSON, the text does not."""
    pairs = zip(codec.written_columns, codec.encode(before), codec.encode(after), strict=True)
    return {name: becomes for name, was, becomes in pairs if was != becomes}


@cache
def _sql(form: _Form, many: bool) -> str:
    act, table, names = form
    key = TABLES[table].key
    keyed = " AND ".join(f"{quote(name)} = given.v{at}" for at, name in enumerate(key))
    match act:
        case "insert":
            return f"INSERT INTO {quote(table)} ({quote_names(names)}) {given(table, names, many)}"
        case "update":
            sets = ", ".join(f"{quote(name)} = given.v{at}" for at, name in enumerate(names, len(key)))
            rows = given(table, (*key, *names), many)
            return f"UPDATE {quote(table)} SET {sets} FROM ({rows}) AS given WHERE {keyed}"
        case "delete":
            return f"DELETE FROM {quote(table)} USING ({given(table, key, many)}) AS given WHERE {keyed}"


def given(table: str, names: Sequence[str], many: bool = True) -> str:
    """A query for what is bound, as columns v0, v1, …: a list for each name, or a single value."""
    types = [DUCKDB.spell_type(TABLES[table].by_name[name]) for name in names]
    marks = [f"unnest(?::{one}[])" if many else f"?::{one}" for one in types]
    return "SELECT " + ", ".join(f"{mark} AS v{at}" for at, mark in enumerate(marks))


def bound(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Rows as `given` takes them."""
    return list(rows[0]) if len(rows) == 1 else [list(column) for column in zip(*rows, strict=True)]
