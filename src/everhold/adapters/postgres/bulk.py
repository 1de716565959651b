"""Many rows at once, by COPY in its binary form, inside the commit's transaction.

Rows that a commit adds one after the other are gathered by table, parents first. That changes nothing but the pace,
unless a row refers to one that the commit adds later: then, and whenever COPY is refused, the rows go one by one, so
that what is told is what the first of them would be told. COPY knows no row-level security; there it is not used.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import psycopg

from everhold import clock
from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, get_table
from everhold.schema.codec import Codec
from everhold.schema.operations import Operation, Put
from everhold.schema.sql import quote, quote_names
from everhold.schema.statements import Compiler, SqlStatement
from everhold.schema.table import TENANT, Kind, Reference

LEAST_ROWS = 50
"""From so many rows of a table on, COPY saves several times what its round trips cost, even over a network."""
_ORDER = {entity: place for place, entity in enumerate(CATALOG)}
_HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_END = struct.pack(">h", -1)
_ABSENT = struct.pack(">i", -1)
_LENGTH, _COUNT, _INTEGER, _REAL = (struct.Struct(form) for form in (">i", ">h", ">q", ">d"))
_MILLENNIUM = clock.micros(datetime(2000, 1, 1, tzinfo=UTC))
_ENCODE: Mapping[Kind, Callable[[Any], bytes]] = {
    Kind.TEXT: str.encode,
    Kind.INTEGER: _INTEGER.pack,
    Kind.REAL: _REAL.pack,
    Kind.BOOLEAN: lambda value: b"\x01" if value else b"\x00",
    Kind.TIME: lambda value: _INTEGER.pack(clock.micros(value) - _MILLENNIUM),
    Kind.JSON: lambda text: b"\x01" + text.encode(),
    Kind.BYTES: bytes,
    Kind.VECTOR: bytes,
}


@dataclass(frozen=True)
class Bulk:
    """Rows of one table, as COPY takes them."""

    table: str
    sql: str
    data: bytes
    rows: int


Part = Sequence[SqlStatement] | Bulk


def load(connection: psycopg.Connection[tuple[Any, ...]], bulk: Bulk) -> None:
    with connection.cursor() as cursor, cursor.copy(bulk.sql.encode()) as copy:
        copy.write(bulk.data)


def gathered(operations: Sequence[Operation], compiler: Compiler) -> list[Part] | None:
    """The operations as COPYs and what lies between them; nothing if no table has rows enough, or order matters."""
    if len(operations) < LEAST_ROWS:
        return None
    parts: list[Part] = []
    for adding, run in groupby(operations, key=lambda operation: isinstance(operation, Put)):
        if adding:
            rows = [operation.row for operation in run if isinstance(operation, Put)]
            if _refers_ahead(rows):
                return None
            parts += _added(rows, compiler)
        else:
            parts.append([statement for operation in run for statement in compiler.compile(operation)])
    return parts if any(isinstance(part, Bulk) for part in parts) else None


def _added(rows: Sequence[Row], compiler: Compiler) -> Iterator[Part]:
    by_entity: dict[type[Row], list[Row]] = {}
    for row in rows:
        by_entity.setdefault(type(row), []).append(row)
    for entity in sorted(by_entity, key=_ORDER.__getitem__):
        mine = by_entity[entity]
        if len(mine) < LEAST_ROWS:
            yield [statement for row in mine for statement in compiler.compile(Put(row))]
        else:
            yield _bulk(compiler.codec(entity), mine)


def _bulk(codec: Codec[Any], rows: Sequence[Row]) -> Bulk:
    kinds = [_ENCODE[codec.table.by_name[name].kind] for name in codec.written_columns]
    count = _COUNT.pack(len(kinds))
    data = [_HEAD]
    for row in rows:
        data.append(count)
        for encode, value in zip(kinds, codec.encode(row), strict=True):
            if value is None:
                data.append(_ABSENT)
            else:
                held = encode(value)
                data += (_LENGTH.pack(len(held)), held)
    data.append(_END)
    sql = f"COPY {quote(codec.table.name)} ({quote_names(codec.written_columns)}) FROM STDIN (FORMAT binary)"
    return Bulk(codec.table.name, sql, b"".join(data), len(rows))


def _refers_ahead(rows: Sequence[Row]) -> bool:
    """Whether some row needs one that comes after it, or itself."""
    wanted = {
        (reference.target, reference.target_columns)
        for entity in {type(row) for row in rows}
        for reference in get_table(entity).references
        if reference.target != "organizations"
    }
    places: dict[tuple[str, tuple[str, ...]], dict[tuple[Any, ...], int]] = {target: {} for target in wanted}
    for place, row in enumerate(rows):
        table = get_table(type(row)).name
        for (name, columns), held in places.items():
            if name == table:
                held[_values(row, columns)] = place
    organizations = {row.__dict__["id"]: place for place, row in enumerate(rows) if _is_organization(row)}
    return any(
        _place_of(row, reference, places, organizations) >= place
        for place, row in enumerate(rows)
        for reference in get_table(type(row)).references
    )


def _is_organization(row: Row) -> bool:
    return get_table(type(row)).name == "organizations"


def _place_of(
    row: Row,
    reference: Reference,
    places: Mapping[tuple[str, tuple[str, ...]], Mapping[tuple[Any, ...], int]],
    organizations: Mapping[str, int],
) -> int:
    """Where among the rows the one is that this row refers to; -1 if it is none of them."""
    if reference.target == "organizations":
        return organizations.get(row.__dict__[TENANT], -1)
    if reference.kind and row.__dict__[reference.kind[0]] != reference.kind[1]:
        return -1
    return places[reference.target, reference.target_columns].get(_values(row, reference.columns), -1)


def _values(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    values = row.__dict__
    return (values[TENANT], *(values[name] for name in columns))
