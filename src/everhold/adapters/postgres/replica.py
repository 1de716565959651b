"""What recalls read, where there is a streaming replica.

The replica answers as long as it has replayed all that this engine has written and all that it has been shown by the
primary: a recall sees one's own writes and never goes back in time. What other engines wrote it sees when the replica
has it. Whenever the replica is behind, or gone, the primary answers; it is asked again a moment later. One that gave no
answer rests longer each time, and then a single read looks whether it is back.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from everhold.adapters.postgres.connection import connect, is_transient, make_pool, translated
from everhold.adapters.postgres.reading import Aside, PostgresReading, Question
from everhold.adapters.postgres.records import PostgresRecords
from everhold.adapters.postgres.security import Access, require
from everhold.interrupts import uninterrupted
from everhold.schema.operations import Operation, Traits
from everhold.schema.statements import SqlStatement

_WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
logger = logging.getLogger(__name__)

_LONGEST_REST = 60.0
_GONE, _PROMOTED = -2, -1
_TOLD = {_GONE: "cannot be reached", _PROMOTED: "follows no primary"}
_REPLAYED = f"""SELECT CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint
  ELSE {_PROMOTED} END"""


class ReplicaReading(PostgresReading):
    """Reads from the replica of a store, or else from the store. Writes go to the store.

    A connection is waited for `patience_seconds`; a statement may run `answer_seconds`, and its answer is waited for
    `patience_seconds` longer.
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
        self._next_rest = rest_seconds
        self._is_doubted = False
        self._lock = threading.Lock()
        self._needed = 0
        self._noted_writes = -1
        self._resting_until = 0.0
        self.answered = 0
        self._refuse_unsafe()
        self._pool = make_pool(
            self.options, lambda connection: require(connection, self.options), reconnect_timeout=patience_seconds
        )

    def _refuse_unsafe(self) -> None:
        """StoreError if the replica would show what the primary hides. One that is away is looked at when it comes."""
        try:
            connection = connect(self.options)
        except psycopg.Error:
            self._doubt()
            return
        with translated(self.options), connection:
            require(connection, self.options)

    # which of the two answers

    def ask(
        self,
        questions: Sequence[Question],
        settings: Mapping[str, str] | None = None,
        *,
        access: Access | None = None,
    ) -> list[list[tuple[Any, ...]]]:
        if self._may_be_asked():
            chosen = {**(settings or {}), **self._named(access)}
            found = self._asked_of_replica([(_REPLAYED, ()), *questions], chosen)
            if found is not None:
                return found
        writes = self._primary.writes
        *answers, [(written,)] = self._primary.ask([*questions, (_WRITTEN, ())], settings, access=access)
        self._need(written, writes)
        return answers

    def _may_be_asked(self) -> bool:
        """Whether the place to wait for is known, and the replica is not resting. Of those that come after it gave no
        answer, one tries it; the others do not wait with that one."""
        with self._lock:
            if self._noted_writes != self._primary.writes or time.monotonic() < self._resting_until:
                return False
            if self._is_doubted:
                self._rest_longer()
            return True

    def _asked_of_replica(
        self, questions: Sequence[Question], settings: Mapping[str, str]
    ) -> list[list[tuple[Any, ...]]] | None:
        needed = self._needed
        try:
            [[(replayed,)], *answers] = self._ask(questions, settings)
        except psycopg.Error as error:
            self._give_up(error)
            return None
        self._trust()
        if replayed < needed:
            self._rest(self._lag_seconds)
            return None
        self.answered += 1
        return answers

    def _need(self, written: int, writes: int) -> None:
        with self._lock:
            self._needed = max(self._needed, written)
            self._noted_writes = max(self._noted_writes, writes)

    def _rest(self, seconds: float) -> None:
        self._resting_until = time.monotonic() + seconds

    def _give_up(self, error: psycopg.Error) -> None:
        """Lost connections are seldom alone, and none is asked whether it lives: a frozen server would not answer."""
        if is_transient(error):
            self._pool.drain()
        self._doubt()

    def _doubt(self) -> None:
        with self._lock:
            if not self._is_doubted:  # else one of many that failed together, or the one that tried it: it rests
                self._is_doubted = True
                logger.warning("the replica does not answer; the primary is asked for %.1f s", self._next_rest)
                self._rest_longer()

    def _rest_longer(self) -> None:
        self._rest(self._next_rest)
        self._next_rest = min(2 * self._next_rest, _LONGEST_REST)

    def _trust(self) -> None:
        with self._lock:
            if self._is_doubted:
                logger.info("the replica answers again")
                self._is_doubted, self._next_rest, self._resting_until = False, self._rest_seconds, 0.0

    # streams

    def _stream(self, sql: str, values: Sequence[Any], access: Access | None = None) -> Iterator[tuple[Any, ...]]:
        """The primary takes over from a replica that dies before its first rows; later, half is told, and that is an
        error to be tried again."""
        batches = self._batches(sql, values, self._named(access)) if self._is_in_step() else None
        if batches is not None:
            try:
                first = next(batches, [])
            except psycopg.Error as error:
                self._give_up(error)
            else:
                self.answered += 1
                yield from first
                yield from self._rest_of(batches)
                return
        yield from self._streamed_by_primary(sql, values, access)

    def _rest_of(self, batches: Iterator[list[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
        with translated(self.options):
            try:
                for batch in batches:
                    yield from batch
            except psycopg.Error as error:
                self._give_up(error)
                raise

    def _is_in_step(self) -> bool:
        return self._may_be_asked() and self._asked_of_replica([(_REPLAYED, ())], {}) is not None

    def _streamed_by_primary(self, sql: str, values: Sequence[Any], access: Access | None) -> Iterator[tuple[Any, ...]]:
        writes = self._primary.writes
        written = Aside(_WRITTEN, lambda place: self._need(place, writes))
        return self._primary._stream_with(sql, values, access, written)

    # the rest of a store

    @property
    def traits(self) -> Traits:
        return self._primary.traits

    def commit(self, operations: Sequence[Operation]) -> None:
        self._primary.commit(operations)

    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        self._primary._transact(statements)

    def maintain(self, *, erased: bool = False) -> bool:
        return self._primary.maintain(erased=erased)

    def find_problems(self) -> list[str]:
        """What is wrong with the replica alone."""
        state = self._state()
        return [] if state >= 0 else [f"replica {self.options.place} {_TOLD[state]}; the primary answers recalls"]

    def report(self) -> Mapping[str, str]:
        state = self._state()
        told = _TOLD.get(state) or ("in step" if state >= self._needed else "behind")
        return {"replica": f"{self.options.place}, {told}"}

    def _state(self) -> int:
        """How far the replica has come; below zero why it does not count."""
        try:
            [[(replayed,)]] = self._ask([(_REPLAYED, ())], {})
        except psycopg.Error as error:
            self._give_up(error)
            return _GONE
        return int(replayed)

    def close(self) -> None:
        with uninterrupted:
            self._pool.close()
