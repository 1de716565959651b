"""Divide large tables into partitions: memories by id and the access log by time, and chunks by owner.

A partition of memories or of the log spans a month or a quarter. Ids that the engine makes begin with their time, also
those of imported memories, so a range of ids is a range of time. Rows with other ids go to a default partition.
`maintain` creates partitions ahead of time and drops old empty ones. An import creates the partitions of the past that
it needs. A partition is named after its start and its end: `memories@2026-11_2026-12`.

A unique index of a partitioned table must contain the partition column. The primary key of memories contains it, but
the other unique rules do not. So each of these rules is enforced by a second table, `taken_…`, which has a unique index
and one row for every row to which the rule applies. A trigger that runs as the owner writes this table. Two
transactions with the same values wait for each other and get the same error as with any unique index. The trigger's
function searches tables only in the store's schema, so that it never uses a temporary table of another user.
"""

import re
from collections.abc import Collection, Iterator, Sequence
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
AHEAD = 3  # partitions that are created in advance, including the current one
# Imports create no further partitions if a table has this many. A query without ids locks every partition with its
# indexes, and the server's lock table is limited.
_MAX_PARTITIONS = 60
_CHUNK_PARTS = 8  # fixed when the store is created
_LOCK_WAIT = "2s"  # other statements queue behind a waiting lock, so it must not wait long
_MONTHS = {"month": 1, "quarter": 3}
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class RangeColumn:
    """The column by which a table is partitioned by time, and the prefix of the ids if the column is an id."""

    column: str
    prefix: str | None = None

    def make_bound(self, moment: datetime) -> str:
        value = moment.isoformat() if self.prefix is None else clock.make_least_id(self.prefix, moment)
        return f"'{value}'"


RANGE_COLUMNS = {"memories": RangeColumn("id", "mem"), "memory_access_logs": RangeColumn("timestamp")}
# The partition column of each table.
PARTITION_COLUMNS = {**{name: ranged.column for name, ranged in RANGE_COLUMNS.items()}, "chunks": "owner_id"}
_POSTGRES_WITHOUT_KEYS = replace(POSTGRES, generated="bigint GENERATED ALWAYS AS IDENTITY")
# The tables that enforce unique rules of partitioned tables, each with the function that writes it.
RULE_TABLES = {
    f"taken_{table}_{unique.name}": f"keep_{table}_{unique.name}"
    for table in RANGE_COLUMNS
    for unique in TABLES[table].uniques
}
_IS_PARTITIONED = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(quote_ident(%s))"
_LIST_PARTITIONS = """SELECT child.relname::text FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
WHERE inhparent = to_regclass(quote_ident(%s)) ORDER BY 1"""


def is_partitioned(connection: Session, table: str = "memories") -> bool:
    return connection.execute(_IS_PARTITIONED, [table]).fetchall() == [(True,)]


def list_partitions(connection: Session, table: str) -> list[str]:
    return [name for (name,) in connection.execute(_LIST_PARTITIONS, [table]).fetchall()]


def require_server(connection: Session, options: PostgresOptions) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(
            f"{options.place} runs PostgreSQL {connection.info.server_version // 10_000}",
            remedy=f"partitions need {OLDEST_SERVER // 10_000} or later, so upgrade it or leave postgres.partitions "
            "out",
        )


# creating


def create_partitioned_table(table: Table, length: str) -> Iterator[str]:
    """Yield the statements that create a partitioned table with its indexes, rules and first partitions.

    `length` is the length of a partition by time: "month" or "quarter".
    """
    if table.name not in RANGE_COLUMNS:
        yield f'{create_table(table, POSTGRES)} PARTITION BY HASH ("owner_id")'
        yield from create_indexes(table, POSTGRES)
        for remainder in range(_CHUNK_PARTS):
            bound = f"FOR VALUES WITH (MODULUS {_CHUNK_PARTS}, REMAINDER {remainder})"
            yield f"CREATE TABLE {quote(f'{table.name}@{remainder}')} PARTITION OF {quote(table.name)} {bound}"
        return
    column = RANGE_COLUMNS[table.name].column
    definition = create_table(table, _POSTGRES_WITHOUT_KEYS).removesuffix("\n)")
    if table.generated:
        definition += f",\n  PRIMARY KEY ({quote_names((table.generated, column))})"
    yield f"{definition}\n) PARTITION BY RANGE ({quote(column)})"
    yield from create_indexes(replace(table, uniques=()), POSTGRES)
    for unique in table.uniques:
        yield from create_unique_rule(table, unique)
    yield f"CREATE TABLE {quote(f'{table.name}@default')} PARTITION OF {quote(table.name)} DEFAULT"
    for start, end in _list_ranges(_truncate_to_month(clock.now()), length, AHEAD):
        yield _create_partition(table.name, start, end)


def _create_partition(table: str, start: datetime, end: datetime) -> str:
    bounds = f"FROM ({RANGE_COLUMNS[table].make_bound(start)}) TO ({RANGE_COLUMNS[table].make_bound(end)})"
    return f"CREATE TABLE {_name_partition(table, start, end)} PARTITION OF {quote(table)} FOR VALUES {bounds}"


def _name_partition(table: str, start: datetime, end: datetime) -> str:
    return quote(f"{table}@{start:%Y-%m}_{end:%Y-%m}")


def _truncate_to_month(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, 1, tzinfo=UTC)


def _list_ranges(start: datetime, length: str, count: int) -> Iterator[tuple[datetime, datetime]]:
    """Yield `count` time ranges from a month on, each to the end of a calendar month or quarter."""
    months = _MONTHS[length]
    for _ in range(count):
        month = (start.year * 12 + start.month - 1) // months * months + months
        end = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
        yield start, end
        start = end


# unique rules


def create_unique_rule(table: Table, unique: Unique) -> Iterator[str]:
    """Yield the statements for a unique rule: an index for lookups, and the table that enforces it with a trigger."""
    yield create_unique(table, unique, POSTGRES).replace('CREATE UNIQUE INDEX "one_', 'CREATE INDEX "find_', 1)
    name = _name_rule_table(table, unique)
    key = [column for column in table.key if column not in (TENANT, *unique.columns)]
    columns = [TENANT, *unique.columns, *key]
    definitions = ", ".join(f"{quote(column)} {POSTGRES.spell_type(table.by_name[column])}" for column in columns)
    yield f"CREATE TABLE {name} ({definitions})"
    unconditional = replace(unique, always=True)
    yield create_unique(table, unconditional, POSTGRES).replace(f"ON {quote(table.name)} ", f"ON {name} ")
    condition = _match_rule(table, unique, "existing")
    existing = f"SELECT {quote_names(columns)} FROM {quote(table.name)} AS existing WHERE {condition}"
    yield f"INSERT INTO {name} {existing}"
    function = quote(f"keep_{table.name}_{unique.name}")
    yield f"""CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
BEGIN
  IF TG_OP <> 'INSERT' AND {_match_rule(table, unique, "OLD")} THEN
    DELETE FROM {name} WHERE {_match_old_row(columns)};
  END IF;
  IF TG_OP <> 'DELETE' AND {_match_rule(table, unique, "NEW")} THEN
    INSERT INTO {name} ({quote_names(columns)}) VALUES ({", ".join(f"NEW.{quote(column)}" for column in columns)});
  END IF;
  RETURN NULL;
END $$"""
    yield restrict_function(f"{function}()")
    watched_columns = [*columns, "is_deleted"] if table.soft else columns
    # Triggers fire in the order of their names. This one must precede the checks of references, which PostgreSQL calls
    # RI_ConstraintTrigger…: a row that breaks both rules gets the same error as with a unique index.
    trigger = quote(f"1_keep_{table.name}_{unique.name}")
    yield f"""CREATE TRIGGER {trigger} AFTER INSERT OR DELETE OR UPDATE OF {quote_names(watched_columns)}
ON {quote(table.name)} FOR EACH ROW EXECUTE FUNCTION {function}()"""


def restrict_function(function: str, *roles: str) -> str:
    """Return SQL that limits a function's search path to the store's schema and forbids the roles to call it."""
    path = f"ALTER FUNCTION {function} SET search_path = %I, pg_temp"
    return f"""DO $do$ BEGIN EXECUTE format('{path}', current_schema()); END $do$;
REVOKE ALL ON FUNCTION {function} FROM {_list_roles(roles)}"""


def restrict_table(table: str, *roles: str) -> str:
    """Return SQL that closes a table to all roles except its owner. A partition is still read through its parent."""
    return f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;\nREVOKE ALL ON {table} FROM {_list_roles(roles)}"


def _list_roles(roles: Sequence[str]) -> str:
    return ", ".join(["PUBLIC", *map(quote, roles)])


def _name_rule_table(table: Table, unique: Unique) -> str:
    return quote(f"taken_{table.name}_{unique.name}")


def _match_rule(table: Table, unique: Unique, row: str) -> str:
    conditions = ["TRUE"]
    if table.soft and not unique.always:
        conditions.append(f"NOT {row}.{quote('is_deleted')}")
    if unique.when:
        conditions.append(f"{row}.{quote(unique.when)} IS NOT NULL")
    if unique.unless:
        conditions.append(f"{row}.{quote(unique.unless)} IS NULL")
    return " AND ".join(conditions)


def _match_old_row(columns: Sequence[str]) -> str:
    return " AND ".join(f"{quote(column)} IS NOT DISTINCT FROM OLD.{quote(column)}" for column in columns)


# maintenance


def maintain_partitions(connection: Session, options: PostgresOptions, role: str) -> None:
    """Create partitions ahead of time and drop old empty ones, without waiting long for locks.

    With row-level security, new partitions are closed to the role.
    """
    length = "month" if options.partitions == "none" else options.partitions
    for table in RANGE_COLUMNS:
        if is_partitioned(connection, table):
            spans = _read_ranges(connection, table)
            for start, end in _find_missing_ranges(list(spans.values()), length):
                _create_if_free(connection, table, start, end, role if options.row_security else None)
            for name, (_, end) in spans.items():
                if end < _truncate_to_month(clock.now()):
                    _drop_if_empty(connection, table, name)


def add_partitions(
    connection: Session, table: str, moments: Collection[datetime], options: PostgresOptions, role: str | None
) -> None:
    """Create the missing partitions for these times, the newest first, up to the limit of partitions."""
    spans = list(_read_ranges(connection, table).values())
    length = "month" if options.partitions == "none" else options.partitions
    for month in sorted(set(map(_truncate_to_month, moments)), reverse=True):
        if len(spans) >= _MAX_PARTITIONS:
            return
        if not any(start <= month < end for start, end in spans):
            span = _find_range(month, length, spans)
            _create_if_free(connection, table, *span, role)
            spans.append(span)


def _find_range(month: datetime, length: str, spans: Sequence[Span]) -> Span:
    """Return the calendar month or quarter that contains `month`, without the parts that other partitions cover."""
    period_start = month.replace(month=month.month - (month.month - 1) % _MONTHS[length])
    [(_, end)] = _list_ranges(month, length, 1)
    starts = [period_start, *(span_end for _, span_end in spans if span_end <= month)]
    return max(starts), min([end, *(other_start for other_start, _ in spans if other_start > month)])


def _read_ranges(connection: Session, table: str) -> dict[str, Span]:
    """Return the time range of each partition, without the default partition and those with other names."""
    ends_by_name = {name: name.removeprefix(f"{table}@").split("_") for name in list_partitions(connection, table)}
    return {
        name: (_parse_month(ends[0]), _parse_month(ends[1]))
        for name, ends in ends_by_name.items()
        if len(ends) == 2 and all(map(_MONTH.fullmatch, ends))
    }


def _parse_month(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)


def _find_missing_ranges(spans: Sequence[Span], length: str) -> Iterator[Span]:
    """Yield the time ranges from this month on that no partition covers."""
    start = _truncate_to_month(clock.now())
    [(_, last_end)] = list(_list_ranges(start, length, AHEAD))[-1:]
    while start < last_end:
        covered_ends = [end for begin, end in spans if begin <= start < end]
        if covered_ends:
            start = max(covered_ends)
            continue
        [(_, end)] = _list_ranges(start, length, 1)
        end = min([end, *(begin for begin, _ in spans if begin > start)])
        yield start, end
        start = end


def _create_if_free(connection: Session, table: str, start: datetime, end: datetime, role: str | None) -> None:
    """Create a partition, unless the default partition already contains rows of that time; they stay there."""
    column, bound = quote(RANGE_COLUMNS[table].column), RANGE_COLUMNS[table].make_bound
    default = quote(f"{table}@default")
    has_rows = f"SELECT EXISTS (SELECT FROM {default} WHERE {column} >= {bound(start)} AND {column} < {bound(end)})"
    # This is a separate transaction, because creating needs a stronger lock, and upgrading a lock could deadlock.
    with _try_transaction(connection):
        if connection.execute(has_rows.encode()).fetchall() == [(True,)]:
            return
    with _try_transaction(connection):
        connection.execute(_create_partition(table, start, end).encode())
        if role is not None:
            connection.execute(restrict_table(_name_partition(table, start, end), role).encode())


def _drop_if_empty(connection: Session, table: str, name: str) -> None:
    part = quote(name)
    has_rows = f"SELECT EXISTS (SELECT FROM {part})".encode()
    if connection.execute(has_rows).fetchall() == [(True,)]:
        return
    with _try_transaction(connection):
        connection.execute(f"LOCK TABLE {part} IN ACCESS EXCLUSIVE MODE".encode())
        connection.execute("SET LOCAL row_security = off")  # an error instead of hidden rows
        if connection.execute(has_rows).fetchall() == [(False,)]:  # checked again under the lock
            connection.execute(f"ALTER TABLE {quote(table)} DETACH PARTITION {part}".encode())
            connection.execute(f"DROP TABLE {part}".encode())


_CONFLICTS = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.CheckViolation,  # another transaction has just added a row of that range to the default partition
    psycopg.errors.DuplicateTable,  # another process was quicker
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidObjectDefinition,
)


@contextmanager
def _try_transaction(connection: Session) -> Iterator[None]:
    """Run one brief transaction; roll it back silently if other sessions block it."""
    with suppress(*_CONFLICTS), begin_brief_transaction(connection):
        yield


@contextmanager
def begin_brief_transaction(connection: Session) -> Iterator[None]:
    """Run one transaction that does not wait long for locks, because other statements queue behind it."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'".encode())
        yield
