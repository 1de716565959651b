"""A snapshot of all rows of a PostgreSQL database: a read-only transaction at REPEATABLE READ.

PostgreSQL itself tracks changes: the system column `xmin` is the id of the transaction that wrote the row's
version. A row whose `xmin` is older than every transaction that was running during an earlier snapshot has not changed
since then.
"""

from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import psycopg

from everhold.adapters.postgres.connection import PostgresOptions, translate_errors
from everhold.adapters.postgres.dialect import POSTGRES
from everhold.adapters.postgres.security import WHOLE_STORE, set_access
from everhold.model.base import Row
from everhold.schema.catalog import get_table
from everhold.schema.plain_values import PlainRow
from everhold.schema.snapshots import ChangedRows, CollectRow, RowBatch, collect_batches
from everhold.schema.sql import quote, quote_names
from everhold.schema.statements import Compiler

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_FETCH_ROWS = 5000  # rows per round trip
# The id of the database, the oldest transaction that is still running, and the next one.
_MOMENT = """SELECT (SELECT system_identifier FROM pg_control_system())::text || '.' || (
    SELECT oid FROM pg_database WHERE datname = current_database())::text,
  pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint"""
_LAST_SEQUENCE = 'SELECT coalesce(max("sequence"), 0) FROM "outbox"'
_XID_RANGE = 2**32  # `xmin` has only the lower 32 bits of a transaction id


class _Moment(NamedTuple):
    database: str
    oldest: int
    next: int

    @property
    def mark(self) -> str:
        return f"{self.database}/{self.oldest}"

    def find_since(self, mark: str) -> int | None:
        """Return the oldest transaction that ran at the moment of `mark`; None if later changes cannot be found."""
        database, _, oldest = mark.rpartition("/")
        if database != self.database or not oldest.isdecimal() or int(oldest) > self.oldest:
            return None
        # With only 32 bits in `xmin`, much older transactions look like newer ones.
        return int(oldest) if self.next - int(oldest) < _XID_RANGE // 2 else None


class PostgresSnapshot:
    """The rows that a connection in a transaction sees."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions) -> None:
        self._connection, self._options = connection, options
        self._compiler = Compiler(POSTGRES)
        with translate_errors(options):
            connection.execute(_BEGIN)
            if options.row_security:
                set_access(connection, WHOLE_STORE)
            self.sequence = int(self._fetch(_LAST_SEQUENCE)[0][0])
            self._moment = self._read_moment()

    @property
    def mark(self) -> str:
        return "" if self._moment is None else self._moment.mark

    def count(self, entity: type[Row]) -> int:
        with translate_errors(self._options):
            return int(self._fetch(f"SELECT count(*) FROM {quote(get_table(entity).name)}")[0][0])

    def read(self, entity: type[Row], collect: CollectRow) -> Iterator[RowBatch]:
        return collect_batches(entity, self._stream(entity, ""), collect)

    def read_keys(self, entity: type[Row]) -> Iterator[Sequence[PlainRow]]:
        table = get_table(entity)
        name, sql = f"keys_of_{table.name}", f"SELECT {quote_names(table.key)} FROM {quote(table.name)}"
        with translate_errors(self._options):
            yield from self._fetch_batches(name, sql)

    def read_changes(self, entity: type[Row], mark: str, collect: CollectRow) -> ChangedRows | None:
        since = None if self._moment is None else self._moment.find_since(mark)
        if self._moment is None or since is None:
            return None
        # The full id of a row's transaction is the highest id up to `next` that has the same lower 32 bits.
        last = self._moment.next
        transaction = f"({last} - (({last} - xmin::text::bigint) & {_XID_RANGE - 1}))"
        return ChangedRows(collect_batches(entity, self._stream(entity, f" WHERE {transaction} >= {since}"), collect))

    def _read_moment(self) -> _Moment | None:
        """Return the current moment; None if the role may not read the server's system identifier."""
        self._connection.execute("SAVEPOINT moment")
        try:
            return _Moment(*self._fetch(_MOMENT)[0])
        except psycopg.errors.InsufficientPrivilege:
            self._connection.execute("ROLLBACK TO moment")
            return None

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql.encode(), binary=True).fetchall()

    def _stream(self, entity: type[Row], where: str) -> Iterator[tuple[Any, ...]]:
        table = get_table(entity)
        decode = self._compiler.codec(entity).make_decoder(table.names)
        sql = f"SELECT {quote_names(table.names)} FROM {quote(table.name)}{where}"
        with translate_errors(self._options):
            for rows in self._fetch_batches(f"rows_of_{table.name}", sql):
                yield from starmap(decode, rows)

    def _fetch_batches(self, name: str, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        self._connection.execute(f"DECLARE {name} NO SCROLL CURSOR FOR {sql}".encode())
        fetch = f"FETCH FORWARD {_FETCH_ROWS} FROM {name}".encode()
        while rows := self._connection.execute(fetch, prepare=False, binary=True).fetchall():
            yield rows
        self._connection.execute(f"CLOSE {name}".encode())
