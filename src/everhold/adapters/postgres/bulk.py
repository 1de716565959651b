"""Bulk inserts by binary COPY, inside the commit's transaction.

Rows that a commit adds one after the other are grouped by table, parents first. The result is the same as with single
INSERTs, unless a row refers to a row that the commit adds later. In that case, and whenever COPY fails, the rows are
inserted one by one, which raises the error of the first invalid row. COPY does not support row-level security.
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

# From this number of rows on, COPY is faster despite its extra round trips, even over a network.
MIN_ROWS = 50
# Parents come before the rows that refer to them.
_TABLE_ORDER = {entity: position for position, entity in enumerate(CATALOG)}
# Parts of the binary format of COPY.
_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TRAILER = struct.pack(">h", -1)
_NULL = struct.pack(">i", -1)
_LENGTH, _COUNT, _INTEGER, _REAL = (struct.Struct(form) for form in (">i", ">h", ">q", ">d"))
# PostgreSQL counts microseconds from this moment.
_EPOCH = clock.micros(datetime(2000, 1, 1, tzinfo=UTC))
_ENCODERS: Mapping[Kind, Callable[[Any], bytes]] = {
    Kind.TEXT: str.encode,
    Kind.INTEGER: _INTEGER.pack,
    Kind.REAL: _REAL.pack,
    Kind.BOOLEAN: lambda value: b"\x01" if value else b"\x00",
    Kind.TIME: lambda value: _INTEGER.pack(clock.micros(value) - _EPOCH),
    Kind.JSON: lambda text: b"\x01" + text.encode(),
    Kind.BYTES: bytes,
    Kind.VECTOR: bytes,
}


@dataclass(frozen=True)
class Bulk:
    """Rows of one table in COPY's binary format."""

    table: str
    sql: str
    data: bytes
    rows: int


Part = Sequence[SqlStatement] | Bulk


def insert_bulk(connection: psycopg.Connection[tuple[Any, ...]], bulk: Bulk) -> None:
    """Insert rows with COPY."""
    with connection.cursor() as cursor, cursor.copy(bulk.sql.encode()) as copy:
        copy.write(bulk.data)


def collect_bulks(operations: Sequence[Operation], compiler: Compiler) -> list[Part] | None:
    """Return the operations as bulk inserts and the statements between them.

    Return None if there are too few rows, or if a row refers to a row that is added later.
    """
    if len(operations) < MIN_ROWS:
        return None
    parts: list[Part] = []
    for is_insert, group in groupby(operations, key=lambda operation: isinstance(operation, Put)):
        if is_insert:
            rows = [operation.row for operation in group if isinstance(operation, Put)]
            if _has_forward_reference(rows):
                return None
            parts += _group_rows(rows, compiler)
        else:
            parts.append([statement for operation in group for statement in compiler.compile(operation)])
    return parts if any(isinstance(part, Bulk) for part in parts) else None


def _group_rows(rows: Sequence[Row], compiler: Compiler) -> Iterator[Part]:
    by_entity: dict[type[Row], list[Row]] = {}
    for row in rows:
        by_entity.setdefault(type(row), []).append(row)
    for entity in sorted(by_entity, key=_TABLE_ORDER.__getitem__):
        group = by_entity[entity]
        if len(group) < MIN_ROWS:
            yield [statement for row in group for statement in compiler.compile(Put(row))]
        else:
            yield _encode_bulk(compiler.codec(entity), group)


def _encode_bulk(codec: Codec[Any], rows: Sequence[Row]) -> Bulk:
    encoders = [_ENCODERS[codec.table.by_name[name].kind] for name in codec.written_columns]
    count = _COUNT.pack(len(encoders))
    data = [_HEADER]
    for row in rows:
        data.append(count)
        for encode, value in zip(encoders, codec.encode(row), strict=True):
            if value is None:
                data.append(_NULL)
            else:
                content = encode(value)
                data += (_LENGTH.pack(len(content)), content)
    data.append(_TRAILER)
    sql = f"COPY {quote(codec.table.name)} ({quote_names(codec.written_columns)}) FROM STDIN (FORMAT binary)"
    return Bulk(codec.table.name, sql, b"".join(data), len(rows))


def _has_forward_reference(rows: Sequence[Row]) -> bool:
    """Return whether a row refers to itself or to a row after it."""
    targets = {
        (reference.target, reference.target_columns)
        for entity in {type(row) for row in rows}
        for reference in get_table(entity).references
        if reference.target != "organizations"
    }
    positions: dict[tuple[str, tuple[str, ...]], dict[tuple[Any, ...], int]] = {target: {} for target in targets}
    for position, row in enumerate(rows):
        table = get_table(type(row)).name
        for (name, columns), position_by_values in positions.items():
            if name == table:
                position_by_values[_get_values(row, columns)] = position
    organizations = {row.__dict__["id"]: position for position, row in enumerate(rows) if _is_organization(row)}
    return any(
        _find_position(row, reference, positions, organizations) >= position
        for position, row in enumerate(rows)
        for reference in get_table(type(row)).references
    )


def _is_organization(row: Row) -> bool:
    return get_table(type(row)).name == "organizations"


def _find_position(
    row: Row,
    reference: Reference,
    positions: Mapping[tuple[str, tuple[str, ...]], Mapping[tuple[Any, ...], int]],
    organizations: Mapping[str, int],
) -> int:
    """Return the position of the row that this row refers to; -1 if it is not among the rows."""
    if reference.target == "organizations":
        return organizations.get(row.__dict__[TENANT], -1)
    if reference.kind and row.__dict__[reference.kind[0]] != reference.kind[1]:
        return -1
    return positions[reference.target, reference.target_columns].get(_get_values(row, reference.columns), -1)


def _get_values(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    values = row.__dict__
    return (values[TENANT], *(values[name] for name in columns))
