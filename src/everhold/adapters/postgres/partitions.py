"""Large tables in parts: memories by id and the access log by time, a month or a quarter each; chunks by owner.

Our ids begin with their time, so a range of them is a stretch of time; ids of other makes go to a default part. Parts
are made ahead, and old empty ones dropped, by `maintain`. A part is named `memories@2026-11_2026-12`: start and end.

A unique index of a table in parts must hold the column that parts it. The key of memories does; the other unique rules
do not, so each of them is kept by a table beside it, `taken_…`, with a row for every row in force and a unique index
over those, written by a trigger that runs as the owner. Of two that take the same at once, the second waits for the
first, as with any unique index, and is told the same. The trigger's function looks for tables in the store's schema
alone, so that nobody's temporary table is taken for one of them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import psycopg

from everhold import clock
from everhold.adapters.postgres.connection import PostgresOptions
from everhold.adapters.postgres.dialect import POSTGRES
from everhold.errors import StoreError
from everhold.schema.catalog import TABLES
from everhold.schema.sql import create_indexes, create_table, create_unique, quote, quote_names
from everhold.schema.table import TENANT, Table, Unique

Session = psycopg.Connection[tuple[Any, ...]]
Span = tuple[datetime, datetime]

OLDEST_SERVER = 170_000
AHEAD = 3
_CHUNK_PARTS = 8
_LOCK_WAIT = "2s"
_MONTHS = {"month": 1, "quarter": 3}
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class Ranged:
    """How a table is parted by time: by which column, and the least value of it from a moment on."""

    column: str
    prefix: str | None = None

    def bound(self, moment: datetime) -> str:
        value = moment.isoformat() if self.prefix is None else clock.least_id(self.prefix, moment)
        return f"'{value}'"


RANGED = {"memories": Ranged("id", "mem"), "memory_access_logs": Ranged("timestamp")}
PARTED = {**{name: ranged.column for name, ranged in RANGED.items()}, "chunks": "owner_id"}
"""By which column each is parted."""
_WHOLE_NUMBER = replace(POSTGRES, generated="bigint GENERATED ALWAYS AS IDENTITY")
BESIDE = {
    f"taken_{table}_{unique.name}": f"keep_{table}_{unique.name}"
    for table in RANGED
    for unique in TABLES[table].uniques
}
"""Tables that keep a rule of a table in parts, each with the function that writes it."""
_IS_PARTED = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(quote_ident(%s))"
_PARTS = """SELECT child.relname::text FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
WHERE inhparent = to_regclass(quote_ident(%s)) ORDER BY 1"""


def is_parted(connection: Session, table: str = "memories") -> bool:
    return connection.execute(_IS_PARTED, [table]).fetchall() == [(True,)]


def parts_of(connection: Session, table: str) -> list[str]:
    return [name for (name,) in connection.execute(_PARTS, [table]).fetchall()]


def require_server(connection: Session, options: PostgresOptions) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(
            f"{options.place} runs PostgreSQL {connection.info.server_version // 10_000}",
            remedy=f"partitions need "
            f"{OLDEST_SERVER // 10_000} or later, so upgrade it or leave postgres.partitions out",
        )


# creating


def create(table: Table, every: str) -> Iterator[str]:
    """A table in parts, with its indexes, its rules and its first parts."""
    if table.name not in RANGED:
        yield f'{create_table(table, POSTGRES)} PARTITION BY HASH ("owner_id")'
        yield from create_indexes(table, POSTGRES)
        for number in range(_CHUNK_PARTS):
            bound = f"FOR VALUES WITH (MODULUS {_CHUNK_PARTS}, REMAINDER {number})"
            yield f"CREATE TABLE {quote(f'{table.name}@{number}')} PARTITION OF {quote(table.name)} {bound}"
        return
    column = RANGED[table.name].column
    text = create_table(table, _WHOLE_NUMBER).removesuffix("\n)")
    if table.generated:
        text += f",\n  PRIMARY KEY ({quote_names((table.generated, column))})"
    yield f"{text}\n) PARTITION BY RANGE ({quote(column)})"
    yield from create_indexes(replace(table, uniques=()), POSTGRES)
    for unique in table.uniques:
        yield from unique_rule(table, unique)
    yield f"CREATE TABLE {quote(f'{table.name}@default')} PARTITION OF {quote(table.name)} DEFAULT"
    for start, end in _stretches(_month_of(clock.now()), every, AHEAD):
        yield _create_part(table.name, start, end)


def _create_part(table: str, start: datetime, end: datetime) -> str:
    bounds = f"FROM ({RANGED[table].bound(start)}) TO ({RANGED[table].bound(end)})"
    return f"CREATE TABLE {_part_name(table, start, end)} PARTITION OF {quote(table)} FOR VALUES {bounds}"


def _part_name(table: str, start: datetime, end: datetime) -> str:
    return quote(f"{table}@{start:%Y-%m}_{end:%Y-%m}")


def _month_of(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, 1, tzinfo=UTC)


def _stretches(start: datetime, every: str, count: int) -> Iterator[tuple[datetime, datetime]]:
    """From a month on, stretches that end with a month or a quarter of the calendar."""
    months = _MONTHS[every]
    for _ in range(count):
        place = (start.year * 12 + start.month - 1) // months * months + months
        end = datetime(place // 12, place % 12 + 1, 1, tzinfo=UTC)
        yield start, end
        start = end


# unique rules


def unique_rule(table: Table, unique: Unique) -> Iterator[str]:
    """A table beside this one that holds what is taken, filled with what is, and the trigger that writes it."""
    name = _taken(table, unique)
    key = [column for column in table.key if column not in (TENANT, *unique.columns)]
    columns = [TENANT, *unique.columns, *key]
    defined = ", ".join(f"{quote(one)} {POSTGRES.spell_type(table.by_name[one])}" for one in columns)
    yield f"CREATE TABLE {name} ({defined})"
    plain = replace(unique, always=True)
    yield create_unique(table, plain, POSTGRES).replace(f"ON {quote(table.name)} ", f"ON {name} ")
    held = f"SELECT {quote_names(columns)} FROM {quote(table.name)} AS held WHERE {_in_force(table, unique, 'held')}"
    yield f"INSERT INTO {name} {held}"
    function = quote(f"keep_{table.name}_{unique.name}")
    yield f"""CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
BEGIN
  IF TG_OP <> 'INSERT' AND {_in_force(table, unique, "OLD")} THEN
    DELETE FROM {name} WHERE {_same(columns)};
  END IF;
  IF TG_OP <> 'DELETE' AND {_in_force(table, unique, "NEW")} THEN
    INSERT INTO {name} ({quote_names(columns)}) VALUES ({", ".join(f"NEW.{quote(one)}" for one in columns)});
  END IF;
  RETURN NULL;
END $$"""
    yield closed_function(f"{function}()")
    watched = [*columns, "is_deleted"] if table.soft else columns
    yield f"""CREATE TRIGGER {function} AFTER INSERT OR DELETE OR UPDATE OF {quote_names(watched)}
ON {quote(table.name)} FOR EACH ROW EXECUTE FUNCTION {function}()"""


def closed_function(function: str, *roles: str) -> str:
    """Lets a function find tables in the store's schema alone, and nobody make a trigger of it on a table of theirs."""
    path = f"ALTER FUNCTION {function} SET search_path = %I, pg_temp"
    return f"""DO $do$ BEGIN EXECUTE format('{path}', current_schema()); END $do$;
REVOKE ALL ON FUNCTION {function} FROM {_everybody(roles)}"""


def closed_table(table: str, *roles: str) -> str:
    """Shows nobody but its owner a row of a table by this name. Through the table that it is a part of, all is seen."""
    return f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;\nREVOKE ALL ON {table} FROM {_everybody(roles)}"


def _everybody(roles: Sequence[str]) -> str:
    return ", ".join(["PUBLIC", *map(quote, roles)])


def _taken(table: Table, unique: Unique) -> str:
    return quote(f"taken_{table.name}_{unique.name}")


def _in_force(table: Table, unique: Unique, row: str) -> str:
    conditions = ["TRUE"]
    if table.soft and not unique.always:
        conditions.append(f"NOT {row}.{quote('is_deleted')}")
    if unique.when:
        conditions.append(f"{row}.{quote(unique.when)} IS NOT NULL")
    if unique.unless:
        conditions.append(f"{row}.{quote(unique.unless)} IS NULL")
    return " AND ".join(conditions)


def _same(columns: Sequence[str]) -> str:
    return " AND ".join(f"{quote(one)} IS NOT DISTINCT FROM OLD.{quote(one)}" for one in columns)


# maintenance


def tend(connection: Session, options: PostgresOptions, role: str) -> None:
    """Makes parts ahead and drops old ones that are empty, waiting for nobody long. Under row-level security the parts
    are closed to the role."""
    every = "month" if options.partitions == "none" else options.partitions
    for table in RANGED:
        if is_parted(connection, table):
            spans = _spans(connection, table)
            for start, end in _missing(list(spans.values()), every):
                _make(connection, table, start, end, role if options.row_security else None)
            for name, (_, end) in spans.items():
                if end < _month_of(clock.now()):
                    _drop_if_empty(connection, table, name)


def _spans(connection: Session, table: str) -> dict[str, Span]:
    """From when to when each part is; without the default part, and any that somebody has named otherwise."""
    named = {name: name.removeprefix(f"{table}@").split("_") for name in parts_of(connection, table)}
    return {
        name: (_month_named(ends[0]), _month_named(ends[1]))
        for name, ends in named.items()
        if len(ends) == 2 and all(map(_MONTH.fullmatch, ends))
    }


def _month_named(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)


def _missing(spans: Sequence[Span], every: str) -> Iterator[Span]:
    """The stretches from this month on that no part covers."""
    start = _month_of(clock.now())
    [(_, enough)] = list(_stretches(start, every, AHEAD))[-1:]
    while start < enough:
        covered = [end for begin, end in spans if begin <= start < end]
        if covered:
            start = max(covered)
            continue
        [(_, end)] = _stretches(start, every, 1)
        end = min([end, *(begin for begin, _ in spans if begin > start)])
        yield start, end
        start = end


def _make(connection: Session, table: str, start: datetime, end: datetime, role: str | None) -> None:
    """Makes a part, unless the default part has rows of that time: they stay there."""
    column, bound = quote(RANGED[table].column), RANGED[table].bound
    default = quote(f"{table}@default")
    there = f"SELECT EXISTS (SELECT FROM {default} WHERE {column} >= {bound(start)} AND {column} < {bound(end)})"
    with _another_time(connection):  # apart, so that the other holds no lock that it must exchange for a stronger one
        if connection.execute(there.encode()).fetchall() == [(True,)]:
            return
    with _another_time(connection):
        connection.execute(_create_part(table, start, end).encode())
        if role is not None:
            connection.execute(closed_table(_part_name(table, start, end), role).encode())


def _drop_if_empty(connection: Session, table: str, name: str) -> None:
    part = quote(name)
    full = f"SELECT EXISTS (SELECT FROM {part})".encode()
    if connection.execute(full).fetchall() == [(True,)]:
        return
    with _another_time(connection):
        connection.execute(f"LOCK TABLE {part} IN ACCESS EXCLUSIVE MODE".encode())
        connection.execute("SET LOCAL row_security = off")  # rows that were hidden from the owner are an error
        if connection.execute(full).fetchall() == [(False,)]:  # nobody can fill it now
            connection.execute(f"ALTER TABLE {quote(table)} DETACH PARTITION {part}".encode())
            connection.execute(f"DROP TABLE {part}".encode())


_IN_THE_WAY = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.CheckViolation,  # a row of that stretch has come to the default part
    psycopg.errors.DuplicateTable,  # another process was quicker
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidObjectDefinition,
)


@contextmanager
def _another_time(connection: Session) -> Iterator[None]:
    """One transaction, or nothing at all if others are in the way."""
    with suppress(*_IN_THE_WAY), briefly(connection):
        yield


@contextmanager
def briefly(connection: Session) -> Iterator[None]:
    """One transaction that waits for nobody long: whoever comes after it waits behind it."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'".encode())
        yield
