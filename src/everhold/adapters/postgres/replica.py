"""Read from a streaming replica, for recalls.

The replica answers if it has replayed everything that this engine has written or has read from the primary. So a recall
sees the engine's own writes and never goes back in time; it sees writes of other engines when the replica has them. If
the replica lags or is down, the primary answers, and the replica is tried again a moment later. The pauses of a replica
that does not answer double each time; after each pause, a single read checks whether it answers again.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import psycopg

from everhold.adapters.postgres.connection import connect, is_transient, make_pool, translate_errors
from everhold.adapters.postgres.reading import ExtraQuery, PostgresReading, Query
from everhold.adapters.postgres.records import PostgresRecords
from everhold.adapters.postgres.security import Access, require_isolation
from everhold.interrupts import uninterrupted
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.schema.operations import Operation, Traits
from everhold.schema.statements import SqlStatement

_WRITTEN_POSITION = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
logger = logging.getLogger(__name__)

_MAX_PAUSE = 60.0
# Negative numbers stand for an unusable replica where a position is expected.
_UNREACHABLE, _PROMOTED = -2, -1
_DESCRIPTIONS = {_UNREACHABLE: "cannot be reached", _PROMOTED: "follows no primary"}
_REPLAYED_POSITION = f"""SELECT CASE WHEN pg_is_in_recovery()
  THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint ELSE {_PROMOTED} END"""


class ReplicaReading(PostgresReading):
    """Reads from the replica if possible, otherwise from the primary. Writes go to the primary.

    `patience_seconds` limits the wait for a connection. A statement may run for `answer_seconds`, and its answer may
    take `patience_seconds` longer.
    """

    def __init__(
        self,
        primary: PostgresRecords,
        url: str,
        *,
        patience_seconds: float = 1.0,
        answer_seconds: float = 5.0,
        rest_seconds: float = 5.0,
        lag_seconds: float = 0.05,
    ) -> None:
        super().__init__()
        self.compiler = primary.compiler
        self.options = replace(
            primary.options,
            url=url,
            owner_url=None,
            read_only=True,
            connect_seconds=patience_seconds,
            query_seconds=min(primary.options.query_seconds, answer_seconds),
            grace_seconds=patience_seconds,
        )
        self._primary = primary
        self._patience, self._rest_seconds, self._lag_seconds = patience_seconds, rest_seconds, lag_seconds
        self._next_pause = rest_seconds
        self._is_suspected = False
        self._lock = threading.Lock()
        self._needed_position = 0
        self._noted_writes = -1
        self._paused_until = 0.0
        self.answered = 0
        self._require_safe_replica()
        self._pool = make_pool(
            self.options,
            lambda connection: require_isolation(connection, self.options),
            reconnect_timeout=patience_seconds,
        )

    def _require_safe_replica(self) -> None:
        """Raise StoreError if the replica lacks the required row-level security. If it is down, check it later."""
        try:
            connection = connect(self.options)
        except psycopg.Error:
            self._suspect()
            return
        with translate_errors(self.options), connection:
            require_isolation(connection, self.options)

    # choosing between replica and primary

    def ask(
        self,
        queries: Sequence[Query],
        settings: Mapping[str, str] | None = None,
        *,
        access: Access | None = None,
    ) -> list[list[tuple[Any, ...]]]:
        if self._should_ask_replica():
            all_settings = {**(settings or {}), **self._choose_settings(access)}
            answers = self._ask_replica([(_REPLAYED_POSITION, ()), *queries], all_settings)
            if answers is not None:
                return answers
        writes = self._primary.writes
        *answers, [(written,)] = self._primary.ask([*queries, (_WRITTEN_POSITION, ())], settings, access=access)
        self._require_position(written, writes)
        return answers

    def _should_ask_replica(self) -> bool:
        """Return whether the needed position is known and the replica is not paused.

        After a pause only one reader tries a replica that did not answer; the others use the primary.
        """
        with self._lock:
            if self._noted_writes != self._primary.writes or time.monotonic() < self._paused_until:
                return False
            if self._is_suspected:
                self._pause_longer()
            return True

    def _ask_replica(self, queries: Sequence[Query], settings: Mapping[str, str]) -> list[list[tuple[Any, ...]]] | None:
        needed_position = self._needed_position
        try:
            [[(replayed_position,)], *answers] = self._ask(queries, settings)
        except psycopg.Error as error:
            self._handle_failure(error)
            return None
        self._clear_suspicion()
        if replayed_position < needed_position:
            self._pause(self._lag_seconds)
            return None
        self.answered += 1
        return answers

    def _require_position(self, position: int, writes: int) -> None:
        with self._lock:
            self._needed_position = max(self._needed_position, position)
            self._noted_writes = max(self._noted_writes, writes)

    def _pause(self, seconds: float) -> None:
        self._paused_until = time.monotonic() + seconds

    def _handle_failure(self, error: psycopg.Error) -> None:
        """Drop all connections without checking them, because a frozen server would not answer the check."""
        if is_transient(error):
            self._pool.drain()
        self._suspect()

    def _suspect(self) -> None:
        with self._lock:
            if not self._is_suspected:  # otherwise another reader has failed and paused it already
                self._is_suspected = True
                logger.warning("the replica does not answer; the primary is asked for %.1f s", self._next_pause)
                self._pause_longer()

    def _pause_longer(self) -> None:
        self._pause(self._next_pause)
        self._next_pause = min(2 * self._next_pause, _MAX_PAUSE)

    def _clear_suspicion(self) -> None:
        with self._lock:
            if self._is_suspected:
                logger.info("the replica answers again")
                self._is_suspected, self._next_pause, self._paused_until = False, self._rest_seconds, 0.0

    # streams

    def _stream(self, sql: str, values: Sequence[Any], access: Access | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield rows. The primary takes over if the replica fails before its first rows; a later failure is raised."""
        batches = self._read_batches(sql, values, self._choose_settings(access)) if self._is_caught_up() else None
        if batches is not None:
            try:
                first_batch = next(batches, [])
            except psycopg.Error as error:
                self._handle_failure(error)
            else:
                self.answered += 1
                yield from first_batch
                yield from self._continue_stream(batches)
                return
        yield from self._stream_from_primary(sql, values, access)

    def _continue_stream(self, batches: Iterator[list[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
        with translate_errors(self.options):
            try:
                for batch in batches:
                    yield from batch
            except psycopg.Error as error:
                self._handle_failure(error)
                raise

    def _is_caught_up(self) -> bool:
        return self._should_ask_replica() and self._ask_replica([(_REPLAYED_POSITION, ())], {}) is not None

    def _stream_from_primary(self, sql: str, values: Sequence[Any], access: Access | None) -> Iterator[tuple[Any, ...]]:
        writes = self._primary.writes
        written = ExtraQuery(_WRITTEN_POSITION, lambda position: self._require_position(position, writes))
        return self._primary._stream_with_query(sql, values, access, written)

    # other methods of a store

    @property
    def traits(self) -> Traits:
        return self._primary.traits

    def commit(self, operations: Sequence[Operation]) -> None:
        self._primary.commit(operations)

    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        self._primary._transact(statements)

    def read_snapshot(self) -> AbstractContextManager[StoreSnapshot]:
        return self._primary.read_snapshot()

    def maintain(self, *, erased: bool = False) -> bool:
        return self._primary.maintain(erased=erased)

    def find_problems(self) -> list[str]:
        """Return the problems of the replica, without those of the primary."""
        state = self._read_state()
        return (
            [] if state >= 0 else [f"replica {self.options.place} {_DESCRIPTIONS[state]}; the primary answers recalls"]
        )

    def report(self) -> Mapping[str, str]:
        state = self._read_state()
        state_text = _DESCRIPTIONS.get(state) or ("in step" if state >= self._needed_position else "behind")
        return {"replica": f"{self.options.place}, {state_text}"}

    def _read_state(self) -> int:
        """Return the position that the replica has replayed; a negative value says why it is unusable."""
        try:
            [[(replayed,)]] = self._ask([(_REPLAYED_POSITION, ())], {})
        except psycopg.Error as error:
            self._handle_failure(error)
            return _UNREACHABLE
        return int(replayed)

    def close(self) -> None:
        with uninterrupted:
            self._pool.close()
