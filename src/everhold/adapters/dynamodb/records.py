"""Records in one DynamoDB table."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

from everhold import clock
from everhold.adapters.dynamodb.client import Dynamo, DynamoOptions, Overtaken
from everhold.adapters.dynamodb.commit import Writer
from everhold.adapters.dynamodb.head import Head, read_head
from everhold.adapters.dynamodb.items import LAYOUTS
from everhold.adapters.dynamodb.reading import Finder
from everhold.errors import EverholdError, SchemaTooNew, StoreBusy, StoreError
from everhold.interrupts import uninterrupted
from everhold.model import Outbox, SchemaVersion
from everhold.model.base import Row
from everhold.ports.blobs import Blobs
from everhold.retries import RetryPolicy, retry
from everhold.schema import rules
from everhold.schema.catalog import TABLES, get_table
from everhold.schema.changes import CURRENT, VERSIONS
from everhold.schema.operations import Condition, Ensure, Feed, Operation, Traits
from everhold.schema.plain_records import ReadRecords, is_live
from everhold.schema.planning import plan
from everhold.schema.prefetch import Prefetch, find_problems_in_batches
from everhold.schema.table import TENANT, Table

logger = logging.getLogger(__name__)

E = TypeVar("E", bound=Row)
COMMIT_LIMIT = 100_000
_LOOKS = 10
_FRESH = 0.1
"""Seconds for which a look at the head saves the next one; where others write all the time, it costs a query more."""
_TRIES = 3
"""How often a commit is planned while others may commit. Then they wait for it, or a long one would never come through
between short ones."""
_FIRST_PAUSE = 0.025
_LONGEST_PAUSE = 0.4
_PATIENCE = 60.0
"""Seconds that a commit waits for others."""


class _Seen(NamedTuple):
    """The head, and when it was asked for. If there are as many commits later, there were none between."""

    head: Head
    at: float = -math.inf

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.at < _FRESH


class DynamoRecords(ReadRecords):
    """Records as items. Commits happen one after the other; each is visible whole or not at all."""

    def __init__(self, options: DynamoOptions, blobs: Blobs) -> None:
        details = {"table": options.table, "at": options.endpoint or options.region, "large rows": str(blobs)}
        super().__init__(
            Traits("dynamodb", words="portable", vectors="portable", commit_limit=COMMIT_LIMIT, details=details)
        )
        self.options = options
        self._dynamo = Dynamo(options)
        self._blobs = blobs
        self._finder = Finder(self._dynamo, blobs)
        self._writer = Writer(self._dynamo, blobs)
        self._seen_lately = _Seen(Head(-1, {}, (), None))
        self.prepare()

    def prepare(self) -> None:
        """Leaves the table there, with the current schema."""
        if not self._dynamo.has_table():
            self._dynamo.create_table()
        held = [cast("SchemaVersion", row) for row in self._finder.rows(get_table(SchemaVersion), None, ())]
        newest = max((one.version for one in held if one.version < 1000), default=0)
        if newest > CURRENT:
            raise SchemaTooNew(
                f"{self.options.table} has schema version {newest}, newer than the {CURRENT} known here",
                remedy="upgrade Everhold",
            )
        missing = [version for version in VERSIONS if version.number > newest]
        if missing:
            now = clock.now()
            self.commit([Ensure(SchemaVersion(version=one.number, name=one.name, applied_at=now)) for one in missing])

    # reading

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        self._require_open()
        table = get_table(entity)
        layout = LAYOUTS[table.name]
        wanted = [one for one in dict.fromkeys(ids) if table.tenant != "id" or one == organization_id]
        places = [layout.place((organization_id, one) if TENANT in table.key else (one,)) for one in wanted]
        if len(places) > 1:
            found = self._steady(lambda _: self._finder.get(layout, places))
        else:
            found = list(self._finder.get(layout, places))
        own = (row for row in found if table.tenant is None or row.__dict__[table.tenant] == organization_id)
        return {row.__dict__["id"]: cast("E", row) for row in own if deleted or is_live(table, row)}

    def _read_superset(self, table: Table, organization_id: str | None, where: Sequence[Condition]) -> list[Row]:
        self._require_open()
        return self._steady(lambda head: self._finder.rows(table, organization_id, where, indexed=not head.indexes_lag))

    def _steady(self, read: Callable[[Head], Iterable[Row]]) -> list[Row]:
        """Rows as they were between two commits. DynamoDB may show half of one that happens meanwhile; then it is asked
        again, unless others commit all the time."""
        rows: list[Row] = []
        lately = self._seen_lately
        seen = lately.head if lately.is_fresh else self._look()
        for _ in range(_LOOKS):
            rows = list(read(seen))
            now = self._look()
            if now.commits == seen.commits:
                break
            seen = now
        return rows

    def _look(self) -> Head:
        """The head, seen just now."""
        at = time.monotonic()
        head = read_head(self._dynamo)
        self._seen_lately = _Seen(head, at)
        return head

    def _read_rows(self, table: Table) -> Iterator[Row]:
        return self._finder.rows(table, None, ())

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        return Prefetch(self._finder).find_rows(table, values)

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        self._require_open()
        last = self.head()
        table = get_table(Outbox)
        lines: list[Outbox] = []
        at = after
        while at < last and len(lines) < limit:
            upto = min(at + limit - len(lines), last)
            places = [LAYOUTS[table.name].place((number,)) for number in range(at + 1, upto + 1)]
            found = [cast("Outbox", row) for row in self._finder.get(LAYOUTS[table.name], places)]
            lines += sorted(found, key=lambda line: line.sequence)
            at = upto
        return Feed(lines, at if lines or at > after else after)

    def head(self) -> int:
        self._require_open()
        return read_head(self._dynamo).generated.get(get_table(Outbox).name, 0)

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        rules.check_size(operations, COMMIT_LIMIT)
        self._require_open()

        def commit(attempt: int) -> None:
            with uninterrupted:  # half a commit would block other writers until its reservation ends
                self._attempt(operations, alone=attempt >= _TRIES)

        policy = RetryPolicy(seconds=_PATIENCE, first_pause=_FIRST_PAUSE, longest_pause=_LONGEST_PAUSE)
        retry("commit", commit, policy, on=Overtaken, give_up=self._explain_overtaken)

    def _explain_overtaken(self, _: Exception) -> StoreBusy:
        return StoreBusy(f"{self.options.table} was written to by others for {_PATIENCE:g} s", remedy="try again")

    def _attempt(self, operations: Sequence[Operation], *, alone: bool) -> None:
        """Plans by what is there now, and makes the changes if nobody else has made any since."""
        seen = read_head(self._dynamo)
        if seen.stage is not None:
            if seen.stage.left <= 0:
                logger.info("ending a commit that its process did not end (%s)", seen.stage.outcome)
                self._writer.settle(seen)
            raise Overtaken
        if not alone:
            self._make(seen, operations)
            return
        seen = self._writer.reserved(seen)
        try:
            self._make(seen, operations)
        except (EverholdError, Overtaken):
            with suppress(StoreError, Overtaken):
                self._writer.settle(seen)
            raise

    def _make(self, seen: Head, operations: Sequence[Operation]) -> None:
        generated = dict(seen.generated)
        held = Prefetch(self._finder)
        held.predict(operations)

        def draw(table: Table) -> int:
            generated[table.name] = generated.get(table.name, 0) + 1
            held.note_unused(table, generated[table.name])
            return generated[table.name]

        try:
            changes = plan(held, operations, draw)
        except EverholdError:
            self._check(seen)
            raise
        if changes:
            self._seen_lately = _Seen(self._writer.make(seen, changes, generated), time.monotonic())
        else:
            self._check(seen)
            if seen.stage is not None:
                self._writer.settle(seen)

    def _check(self, seen: Head) -> None:
        """What was read must have been true at one moment, also if it leads to an error or to nothing."""
        if read_head(self._dynamo).commits != seen.commits:
            raise Overtaken

    # care

    def maintain(self, *, erased: bool = False) -> bool:
        """End a commit that was cut short, and delete the blobs that no row needs any more."""
        self._require_open()
        head = read_head(self._dynamo)
        if head.stage is not None and head.stage.left <= 0:
            with uninterrupted, suppress(Overtaken):  # another process does the same
                self._writer.settle(head)
        self._writer.sweep()
        return True

    def find_problems(self) -> list[str]:
        self._require_open()
        unreadable: list[str] = []
        finder = Finder(self._dynamo, self._blobs, unreadable.append)
        broken = [
            one
            for table in TABLES.values()
            for one in find_problems_in_batches(finder, table, finder.rows(table, None, ()))
        ]
        return [*dict.fromkeys(unreadable), *broken]

    def _release(self) -> None:
        self._dynamo.close()
