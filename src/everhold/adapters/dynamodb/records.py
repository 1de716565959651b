"""A store of record in one DynamoDB table."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar, cast

from everhold import clock
from everhold.adapters.dynamodb.client import Dynamo, DynamoOptions, Overtaken
from everhold.adapters.dynamodb.commit import Writer
from everhold.adapters.dynamodb.head import Head, read_head
from everhold.adapters.dynamodb.items import LAYOUTS
from everhold.adapters.dynamodb.reading import RowReader
from everhold.errors import EverholdError, SchemaTooNew, StoreBusy, StoreError
from everhold.interrupts import uninterrupted
from everhold.model import Outbox, SchemaVersion
from everhold.model.base import Row
from everhold.ports.blobs import Blobs
from everhold.retries import RetryPolicy, retry
from everhold.schema import rules
from everhold.schema.catalog import TABLES, get_table
from everhold.schema.changes import CURRENT, VERSIONS
from everhold.schema.operations import Condition, Ensure, Feed, Operation, SettledLines, Traits
from everhold.schema.plain_records import ReadRecords, is_live
from everhold.schema.planning import plan
from everhold.schema.prefetch import Prefetch, find_problems_in_batches
from everhold.schema.snapshots import UntrackedSnapshot, list_snapshot_entities, make_collected_snapshot
from everhold.schema.table import TENANT, Table

logger = logging.getLogger(__name__)

E = TypeVar("E", bound=Row)
COMMIT_LIMIT = 100_000
_MAX_READS = 10  # of rows that change during each read; then the last ones are returned
# Seconds for which a head that was read is used again. If it has changed since, the rows are read once more.
_FRESH_SECONDS = 0.1
_FIRST_PAUSE = 0.025
_MAX_PAUSE = 0.4


class _SeenHead(NamedTuple):
    """A head and the time when it was read. If a later head has the same number of commits, there were none between."""

    head: Head
    at: float = -math.inf

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.at < _FRESH_SECONDS


class DynamoRecords(ReadRecords):
    """Stores rows as items. Commits are serialized, and each becomes visible at once.

    `client` takes the place of the boto3 client that is made from the options.
    """

    def __init__(self, options: DynamoOptions, blobs: Blobs, client: Any = None) -> None:
        details = {"table": options.table, "at": options.endpoint or options.region, "large rows": str(blobs)}
        super().__init__(
            Traits(
                "dynamodb",
                words="portable",
                vectors="portable",
                commit_limit=COMMIT_LIMIT,
                details=details,
                erasure_note="deleted; point-in-time recovery of the table keeps earlier states for its period",
            )
        )
        self.options = options
        self._dynamo = Dynamo(options, client)
        self._blobs = blobs
        self._reader = RowReader(self._dynamo, blobs)
        self._writer = Writer(self._dynamo, blobs)
        self._last_seen = _SeenHead(Head(-1, {}, (), None))
        self.prepare()

    def prepare(self) -> None:
        """Create the table if it does not exist and bring it to the current schema."""
        if not self._dynamo.has_table():
            self._dynamo.create_table()
        versions = [cast("SchemaVersion", row) for row in self._reader.find(get_table(SchemaVersion), None, ())]
        newest = max((row.version for row in versions if row.version < 1000), default=0)
        if newest > CURRENT:
            raise SchemaTooNew(
                f"{self.options.table} has schema version {newest}, newer than {CURRENT}, the latest known here",
                remedy="upgrade Everhold",
            )
        missing = [version for version in VERSIONS if version.number > newest]
        if missing:
            now = clock.now()
            rows = [SchemaVersion(version=version.number, name=version.name, applied_at=now) for version in missing]
            self.commit([Ensure(row) for row in rows])

    # reading

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        self._require_open()
        table = get_table(entity)
        layout = LAYOUTS[table.name]
        row_ids = [row_id for row_id in dict.fromkeys(ids) if table.tenant != "id" or row_id == organization_id]
        keys = [layout.make_key((organization_id, row_id) if TENANT in table.key else (row_id,)) for row_id in row_ids]
        if len(keys) > 1:
            rows = self._read_consistently(lambda _: self._reader.get(layout, keys))
        else:  # one item is always read as of one moment
            rows = list(self._reader.get(layout, keys))
        own_rows = (row for row in rows if table.tenant is None or row.__dict__[table.tenant] == organization_id)
        return {row.__dict__["id"]: cast("E", row) for row in own_rows if deleted or is_live(table, row)}

    def _read_superset(self, table: Table, organization_id: str | None, where: Sequence[Condition]) -> list[Row]:
        self._require_open()
        return self._read_consistently(
            lambda head: self._reader.find(table, organization_id, where, indexed=not head.has_lagging_indexes)
        )

    def _read_consistently(self, read: Callable[[Head], Iterable[Row]]) -> list[Row]:
        """Return rows as they were between two commits.

        DynamoDB may return a part of a commit that happens during the read. Then the rows are read again, a limited
        number of times.
        """
        rows: list[Row] = []
        last_seen = self._last_seen
        seen = last_seen.head if last_seen.is_fresh else self._read_head()
        for _ in range(_MAX_READS):
            rows = list(read(seen))
            head = self._read_head()
            if head.commits == seen.commits:
                break
            seen = head
        return rows

    def _read_head(self) -> Head:
        """Return the head as it is now, and remember it."""
        at = time.monotonic()
        head = read_head(self._dynamo)
        self._last_seen = _SeenHead(head, at)
        return head

    def _read_rows(self, table: Table) -> Iterator[Row]:
        return self._reader.find(table, None, ())

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        return Prefetch(self._reader).find_rows(table, values)

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        self._require_open()
        last = self.head()
        table = get_table(Outbox)
        lines: list[Outbox] = []
        position = after
        while position < last and len(lines) < limit:
            end = min(position + limit - len(lines), last)
            keys = [LAYOUTS[table.name].make_key((number,)) for number in range(position + 1, end + 1)]
            rows = [cast("Outbox", row) for row in self._reader.get(LAYOUTS[table.name], keys)]
            lines += sorted(rows, key=lambda line: line.sequence)
            position = end
        return Feed(lines, position if lines or position > after else after)

    def head(self) -> int:
        self._require_open()
        return read_head(self._dynamo).generated.get(get_table(Outbox).name, 0)

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        return SettledLines(self.feed(after, limit=limit).lines, self.head())

    @contextmanager
    def read_snapshot(self) -> Iterator[UntrackedSnapshot]:
        self._require_open()
        head, rows = self._collect_all()
        yield make_collected_snapshot(head.generated.get(get_table(Outbox).name, 0), rows)

    def _collect_all(self) -> tuple[Head, dict[str, list[Row]]]:
        """Return the rows of all tables between two commits, and the head at that moment.

        If others keep committing, the last attempt reserves the head, so that they wait.
        """
        for _ in range(_MAX_READS):
            head = read_head(self._dynamo)
            rows = self._read_all_tables()
            if head.stage is None and read_head(self._dynamo).commits == head.commits:
                return head, rows
        with uninterrupted:
            try:
                head = self._writer.reserve(read_head(self._dynamo))
            except Overtaken:
                raise self._make_busy_error(Overtaken()) from None
            try:
                rows = self._read_all_tables()
                current_head = read_head(self._dynamo)
            finally:
                with suppress(StoreError, Overtaken):
                    self._writer.settle(head)
        # The reservation may have expired meanwhile, and another process may have committed.
        if current_head.commits != head.commits or current_head.stage is None or head.stage is None:
            raise self._make_busy_error(Overtaken())
        if current_head.stage.name != head.stage.name:
            raise self._make_busy_error(Overtaken())
        return head, rows

    def _read_all_tables(self) -> dict[str, list[Row]]:
        tables = [get_table(entity) for entity in list_snapshot_entities()]
        return {table.name: list(self._reader.find(table, None, (), indexed=False)) for table in tables}

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        rules.check_size(operations, COMMIT_LIMIT)
        self._require_open()

        def commit(attempt: int) -> None:
            with uninterrupted:  # half a commit would block other writers until its reservation ends
                self._attempt(operations, should_reserve=attempt >= self.options.shared_tries)

        seconds = self.options.busy_seconds
        policy = RetryPolicy(seconds=seconds, first_pause=_FIRST_PAUSE, longest_pause=_MAX_PAUSE)
        retry("commit", commit, policy, on=Overtaken, give_up=self._make_busy_error)

    def _make_busy_error(self, _: Exception) -> StoreBusy:
        seconds = f"{self.options.busy_seconds:g} s"
        return StoreBusy(f"{self.options.table} was written to by others for {seconds}", remedy="try again")

    def _attempt(self, operations: Sequence[Operation], *, should_reserve: bool) -> None:
        """Plan the commit by the rows as they are now, and write it unless another commit comes first.

        With `should_reserve`, reserve the head before, so that other commits wait for this one.
        """
        seen = read_head(self._dynamo)
        if seen.stage is not None:
            if seen.stage.seconds_left <= 0:
                logger.info("ending a commit that its process did not end (%s)", seen.stage.outcome)
                self._writer.settle(seen)
            raise Overtaken
        if not should_reserve:
            self._plan_and_write(seen, operations)
            return
        seen = self._writer.reserve(seen)
        try:
            self._plan_and_write(seen, operations)
        except (EverholdError, Overtaken):
            with suppress(StoreError, Overtaken):
                self._writer.settle(seen)
            raise

    def _plan_and_write(self, seen: Head, operations: Sequence[Operation]) -> None:
        """Plan the operations for the rows at the head `seen`, and commit them.

        Raise Overtaken if there was another commit since.
        """
        generated = dict(seen.generated)
        reader = Prefetch(self._reader)
        reader.predict(operations)

        def generate_number(table: Table) -> int:
            generated[table.name] = generated.get(table.name, 0) + 1
            reader.note_unused(table, generated[table.name])
            return generated[table.name]

        try:
            changes = plan(reader, operations, generate_number)
        except EverholdError:
            self._require_unchanged(seen)
            raise
        if changes:
            self._last_seen = _SeenHead(self._writer.write(seen, changes, generated), time.monotonic())
        else:
            self._require_unchanged(seen)
            if seen.stage is not None:
                self._writer.settle(seen)

    def _require_unchanged(self, seen: Head) -> None:
        """Raise Overtaken if there was a commit since. Even an error must be based on rows of one moment."""
        if read_head(self._dynamo).commits != seen.commits:
            raise Overtaken

    # maintenance

    def maintain(self, *, erased: bool = False) -> bool:
        """End a commit whose process died, and delete the blobs that no row refers to any more."""
        self._require_open()
        head = read_head(self._dynamo)
        if head.stage is not None and head.stage.seconds_left <= 0:
            with uninterrupted, suppress(Overtaken):  # another process does the same
                self._writer.settle(head)
        self._writer.sweep()
        return True

    def find_problems(self) -> list[str]:
        self._require_open()
        unreadable: list[str] = []
        reader = RowReader(self._dynamo, self._blobs, unreadable.append)
        problems = [
            problem
            for table in TABLES.values()
            for problem in find_problems_in_batches(reader, table, reader.find(table, None, ()))
        ]
        return [*dict.fromkeys(unreadable), *problems]

    def _release(self) -> None:
        self._dynamo.close()
