"""Read from a PostgreSQL database: queries, streams and the change feed.

A query takes one round trip. Settings that it needs (the organization for row-level security, limits behind a pooler)
are sent together with it, in the same transaction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg_pool import ConnectionPool

from everhold.adapters.postgres.connection import (
    BorrowedConnection,
    PostgresConnection,
    PostgresOptions,
    retry_transient,
    translate_errors,
)
from everhold.adapters.postgres.dialect import POSTGRES
from everhold.adapters.postgres.security import EVERYTHING, Access, choose_access, set_access
from everhold.adapters.postgres.settled import SettledNumber
from everhold.interrupts import uninterrupted
from everhold.model.base import Row
from everhold.model.change_feed import Outbox
from everhold.schema.operations import Feed, Op, SettledLines, Where
from everhold.schema.sql import quote_names
from everhold.schema.sql_records import SqlRecords

_FETCH_ROWS = 10_000  # rows per round trip of a stream
_OLDEST_RUNNING = "pg_snapshot_xmin(pg_current_snapshot())"

Query = tuple[str, Sequence[Any]]


@dataclass(frozen=True)
class ExtraQuery:
    """A query for one value, run on a stream's connection after the stream's snapshot was taken.

    `receive` is called with the value.
    """

    sql: str
    receive: Callable[[Any], None]


class PostgresReading(SqlRecords):
    """The reading half of a store of record in PostgreSQL."""

    options: PostgresOptions
    _pool: ConnectionPool[PostgresConnection]
    _patience: float | None = None
    """Seconds to wait for a connection; None for the limit in the options."""

    def __init__(self) -> None:
        super().__init__(POSTGRES)
        self._settled = SettledNumber()

    def ask(
        self,
        queries: Sequence[Query],
        settings: Mapping[str, str] | None = None,
        *,
        access: Access | None = None,
    ) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each query, all in one round trip; with settings, in one transaction.

        `access` names the organization whose rows are read; without it, row-level security hides all rows.
        """
        all_settings = {**(settings or {}), **self._choose_settings(access)}
        with translate_errors(self.options):
            return retry_transient(
                "read", lambda: self._ask(queries, all_settings), self.options, self._drop_dead_connections
            )

    def _ask(self, queries: Sequence[Query], settings: Mapping[str, str]) -> list[Any]:
        with uninterrupted, self._pool.connection(self._patience) as connection:
            if len(queries) == 1 and not settings and not self.options.transaction_pooler:
                sql, values = queries[0]
                return [connection.execute(sql.encode(), values, binary=True).fetchall()]
            with connection.pipeline():
                self._begin(connection, settings)
                cursors = [connection.execute(sql.encode(), values, binary=True) for sql, values in queries]
                connection.execute("COMMIT")
            return [cursor.fetchall() for cursor in cursors]

    def _choose_settings(self, access: Access | None) -> Access:
        """Return the settings that name the organization, if row-level security is on."""
        return access if access is not None and self.options.row_security else {}

    def _begin(self, connection: PostgresConnection, settings: Mapping[str, str]) -> None:
        connection.execute("BEGIN READ ONLY" if self.options.read_only else "BEGIN")
        if self.options.transaction_pooler:
            settings = {**self.options.make_settings(), **settings}
        if settings:
            set_access(connection, settings)

    def _fetch(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self.ask([(sql, values)])[0]

    def _fetch_for(
        self, entity: type[Row], organization_id: str | None, sql: str, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        return self.ask([(sql, values)], access=choose_access(entity, organization_id))[0]

    def _stream(self, sql: str, values: Sequence[Any], access: Access | None = None) -> Iterator[tuple[Any, ...]]:
        return self._stream_with_query(sql, values, access, None)

    def _stream_with_query(
        self, sql: str, values: Sequence[Any], access: Access | None, extra_query: ExtraQuery | None
    ) -> Iterator[tuple[Any, ...]]:
        def begin() -> tuple[list[tuple[Any, ...]], Iterator[list[tuple[Any, ...]]]]:
            batches = self._read_batches(sql, values, self._choose_settings(access), extra_query)
            return next(batches, []), batches

        with translate_errors(self.options):
            # Only the first batch is retried: after that, a retry would yield the same rows twice.
            first_batch, batches = retry_transient("begin a stream", begin, self.options, self._drop_dead_connections)
            yield from first_batch
            for batch in batches:
                yield from batch

    def _stream_for(
        self, entity: type[Row], organization_id: str | None, sql: str, values: Sequence[Any]
    ) -> Iterator[tuple[Any, ...]]:
        return self._stream(sql, values, choose_access(entity, organization_id))

    def _read_batches(
        self, sql: str, values: Sequence[Any], settings: Mapping[str, str], extra_query: ExtraQuery | None = None
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in batches, through a cursor on one borrowed connection.

        `extra_query` is run in the same transaction, and its single value is passed to its `receive`.
        """
        fetch = f"FETCH FORWARD {_FETCH_ROWS} FROM stream".encode()
        borrowed = BorrowedConnection(self._pool, self._patience)
        connection = borrowed.connection
        try:
            with uninterrupted:
                with connection.pipeline():
                    self._begin(connection, settings)
                    connection.execute(f"DECLARE stream NO SCROLL CURSOR FOR {sql}".encode(), values)
                    cursor = connection.execute(fetch, prepare=False, binary=True)
                    extra_cursor = connection.execute(extra_query.sql.encode(), binary=True) if extra_query else None
                batch = cursor.fetchall()
            if extra_query and extra_cursor:
                [(value,)] = extra_cursor.fetchall()
                extra_query.receive(value)
            while batch:
                yield batch
                if len(batch) < _FETCH_ROWS:
                    return
                with uninterrupted:
                    batch = connection.execute(fetch, prepare=False, binary=True).fetchall()
        finally:
            borrowed.give_back()

    def _drop_dead_connections(self) -> None:
        """Check all connections and drop the dead ones: a restart of the server kills them all at once."""
        self._pool.check()

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        """Return the visible lines of transactions from `after` on. The lines of one transaction are never separated.

        The position is the oldest transaction still running: it may still add lines, so later lines are delivered
        again. A position from the future belongs to another server, so the feed starts over.
        """
        names = quote_names(self.compiler.codec(Outbox).table.names)
        since = "CASE WHEN %s::xid8 > pg_snapshot_xmax(pg_current_snapshot()) THEN '0' ELSE %s::xid8 END"
        sql = f"""WITH edge AS (SELECT {_OLDEST_RUNNING} AS xid), since AS MATERIALIZED (SELECT {since} AS xid),
  settled AS (
    SELECT * FROM "outbox" WHERE "xid" >= (SELECT xid FROM since) AND "xid" < (SELECT xid FROM edge)
    ORDER BY "xid" FETCH FIRST %s ROWS WITH TIES
  ),
  page AS (SELECT count(*) >= %s AS is_full, max("xid") AS last FROM settled),
  lines AS (
    SELECT * FROM settled UNION ALL
    SELECT "outbox".* FROM "outbox", page WHERE NOT page.is_full AND "xid" >= (SELECT xid FROM edge)
      AND "xid" >= (SELECT xid FROM since)
  )
SELECT (SELECT CASE WHEN is_full THEN last::text::bigint + 1 ELSE edge.xid::text::bigint END FROM page, edge), {names}
FROM (SELECT) AS always LEFT JOIN lines ON true ORDER BY "sequence" """
        [rows] = self.ask([(sql, (str(after), str(after), limit, limit))], access=EVERYTHING)
        decode = self.compiler.codec(Outbox).decode
        return Feed([decode(row[1:]) for row in rows if row[1] is not None], int(rows[0][0]))

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        last, oldest = self._read_edge(_OLDEST_RUNNING)
        settled = self._settled.settle(last, oldest)
        if self._settled.needs_mark(last):  # assigns a transaction id, so only while there are new lines
            self._settled.mark(*self._read_edge("pg_current_xact_id()"))
            last, oldest = self._read_edge(_OLDEST_RUNNING)
            settled = self._settled.settle(last, oldest)
        where = [Where("sequence", Op.GT, after), Where("sequence", Op.LE, settled)]
        return SettledLines(self.scan(Outbox, None, where, limit=limit), last)

    def _read_edge(self, transaction: str) -> tuple[int, int]:
        """Return the highest visible number of the feed, and the id of a transaction."""
        sql = f"""SELECT coalesce(max("sequence"), 0), {transaction}::text::bigint FROM "outbox" """
        [[(last, transaction_id)]] = self.ask([(sql, ())], access=EVERYTHING)
        return last, transaction_id

    def head(self) -> int:
        return int(self._fetch(f"SELECT {_OLDEST_RUNNING}::text::bigint", ())[0][0])
