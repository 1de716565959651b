"""Import the data of another system.

    read the input → make records of its rows → check them → write them in batches

The input is read twice. The first pass writes nothing: a file that is damaged is refused as a whole, and rows that
cannot be imported are counted. If it finds out in which order day and month are in the input's dates, it is repeated.
The second pass writes. A row that is stored already changes nothing, so an interrupted import is simply repeated.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from everhold.errors import AlreadyExists, UnreadableFile
from everhold.import_results import ImportResult, MappedRows, RowsLeftOut
from everhold.importers.local_dates import DateOrder
from everhold.importers.message_order import sort_messages
from everhold.importers.quarantine import Quarantine
from everhold.importers.records import Record, RecordReader
from everhold.importers.source import (
    RECORD_KINDS,
    BadRow,
    ImportInput,
    ImportSource,
    LeftOut,
    RecordKind,
    RowDraft,
    SourceItem,
)
from everhold.progress import ReportProgress, StepCounter

BATCH = 250
# A session says whose its messages and memories are, so users and sessions may need a pass of their own.
_OWNERS: Sequence[RecordKind] = ("user", "session")
_OWNED: Sequence[RecordKind] = tuple(kind for kind in RECORD_KINDS if kind not in _OWNERS)

RowKey = tuple[str, str]


class Outcome(NamedTuple):
    """The outcome of a record: added, existing or quarantined. `reason` says why it was quarantined."""

    name: Literal["added", "existing", "quarantined"]
    reason: str = ""


ADDED, EXISTING = Outcome("added"), Outcome("existing")


class RecordWriter(Protocol):
    """Stores records through the engine."""

    @property
    def vectors_kept(self) -> int: ...

    @property
    def vectors_replaced(self) -> int: ...

    def find_fault(self, record: Record) -> str | None:
        """Return why a record cannot be stored; None if nothing is wrong with it, as far as can be checked before."""

    @property
    def has_late_sessions(self) -> bool:
        """Whether a session was checked after a message or a memory of it."""

    def restart(self) -> None:
        """Forget the records that were checked."""

    def prepare(self) -> None:
        """Prepare the store for the checked records, after the first pass."""

    def write(self, records: Sequence[Record]) -> Sequence[Outcome]:
        """Store records and return the outcome of each, in their order."""

    def finish(self) -> None:
        """Make the changes that must follow all records, such as ending sessions."""


@dataclass
class ImportCounts:
    """Counts the rows of an import by the table that they come from and by the kind of record that they become."""

    rows: Counter[RowKey] = field(default_factory=Counter)
    outcomes: Counter[tuple[RowKey, str]] = field(default_factory=Counter)
    left_out: Counter[RowKey] = field(default_factory=Counter)

    def total(self, name: str) -> int:
        return sum(count for (_, outcome), count in self.outcomes.items() if outcome == name)

    def list_mapped(self) -> tuple[MappedRows, ...]:
        """Return the rows by origin and kind, in the order in which they were first seen."""
        return tuple(
            MappedRows(*key, rows, *(self.outcomes[key, name] for name in ("added", "existing", "quarantined")))
            for key, rows in self.rows.items()
        )

    def list_left_out(self) -> tuple[RowsLeftOut, ...]:
        return tuple(RowsLeftOut(*key, rows) for key, rows in self.left_out.items())


@dataclass(frozen=True)
class ImportPart:
    """One file that is imported, or several that one source reads together."""

    source: ImportSource
    import_input: ImportInput
    make_reader: Callable[[DateOrder | None], RecordReader]

    def use_date_order(self, date_order: DateOrder) -> "ImportPart":
        """Return the part with an order of day and month for its ambiguous dates."""
        return replace(self, import_input=replace(self.import_input, date_order=date_order))

    def read(self, reader: RecordReader) -> Iterator[Record | BadRow | LeftOut]:
        """Yield what the source reads, with records instead of drafts."""
        for item in self._iterate_items():
            yield reader.read(item) if isinstance(item, RowDraft) else item

    def _iterate_items(self) -> Iterator[SourceItem]:
        """Yield the items of the source. Raise UnreadableFile if tables or columns that it expects are missing."""
        try:
            yield from self.source.read(self.import_input)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise UnreadableFile(
                f"{self.import_input.files.path.name} is not as {self.source.name} writes it: {error!r}",
                remedy="check which program wrote the file",
            ) from error


@dataclass
class ForeignImport:
    """One import: its parts, and the writer of their rows."""

    parts: Sequence[ImportPart]
    unknown: Sequence[LeftOut]
    """The files of a folder or archive that no source knows."""
    writer: RecordWriter
    report: ReportProgress
    _assumed_zones: dict[str, None] = field(default_factory=dict)
    """The zones of times that had none."""

    def check(self) -> ImportResult:
        """Read everything and store nothing. Raise InvalidInput if the input is damaged."""
        result, orders = self._check()
        if not any(orders):
            return result
        # Some dates were ambiguous, but other dates of the same part show the order.
        self.parts = [
            part if order is None else part.use_date_order(order)
            for part, order in zip(self.parts, orders, strict=True)
        ]
        self.writer.restart()
        return self._check()[0]

    def run(self, quarantine_path: Path | None, *, overwrite: bool = False) -> ImportResult:
        """Import everything that can be imported, and write the other rows to a file."""
        if quarantine_path is not None and not overwrite and quarantine_path.exists():
            raise AlreadyExists(f"{quarantine_path} exists", remedy="name another file for rows that are not imported")
        total = self.check().added  # raises before anything is written if the input is damaged
        self.writer.prepare()
        counts, quarantine = ImportCounts(), Quarantine()
        counter = StepCounter(self.report, "importing", total)
        try:
            passes = (_OWNERS, _OWNED) if self.writer.has_late_sessions else (RECORD_KINDS,)
            for kinds in passes:
                self._write(kinds, counts, quarantine, counter, is_last=kinds is passes[-1])
            self.writer.finish()
            saved_path = quarantine_path if quarantine.count else None
            if saved_path is not None:
                quarantine.save(saved_path, overwrite=overwrite)
            return self._make_result(counts, quarantine, saved_path)
        finally:
            quarantine.close()

    def _write(
        self,
        kinds: Sequence[RecordKind],
        counts: ImportCounts,
        quarantine: Quarantine,
        counter: StepCounter,
        *,
        is_last: bool,
    ) -> None:
        """Write the records of some kinds. Rows are counted, and bad rows collected, in the last pass only."""
        row_counts, bad_rows = (counts, quarantine) if is_last else (ImportCounts(), Quarantine())
        for part in self.parts:
            records = self._read(part, self._make_reader(part), row_counts, bad_rows)
            for batch in _split(record for record in records if record.kind in kinds):
                outcomes = self.writer.write(batch)
                for record, outcome in zip(batch, outcomes, strict=True):
                    counts.outcomes[_get_key(record), outcome.name] += 1
                    if outcome.reason:
                        quarantine.add(record.refuse(outcome.reason), part.source.name)
                counter.add(len(batch))
        if not is_last:
            bad_rows.close()

    def _check(self) -> tuple[ImportResult, Sequence[DateOrder | None]]:
        """Return the result of a dry run, and the order of dates that each part turned out to have."""
        counts, quarantine = ImportCounts(), Quarantine()
        counter = StepCounter(self.report, "checking")
        orders: list[DateOrder | None] = []
        try:
            for part in self.parts:
                reader = self._make_reader(part)
                for batch in _split(self._read(part, reader, counts, quarantine)):
                    for record in batch:
                        reason = self.writer.find_fault(record)
                        counts.outcomes[_get_key(record), "quarantined" if reason else "added"] += 1
                        if reason:
                            quarantine.add(record.refuse(reason), part.source.name)
                    counter.add(len(batch))
                orders.append(reader.times.find_order())
                if reader.times.has_naive:
                    self._assumed_zones[str(reader.times.zone)] = None
            return self._make_result(counts, quarantine, None, is_dry_run=True), orders
        finally:
            quarantine.close()

    def _make_reader(self, part: ImportPart) -> RecordReader:
        return part.make_reader(part.import_input.date_order)

    def _read(
        self, part: ImportPart, reader: RecordReader, counts: ImportCounts, quarantine: Quarantine
    ) -> Iterator[Record]:
        """Yield the records of a part. Count its rows, and collect the rows that could not be made records."""

        def count_items(items: Iterator[Record | BadRow | LeftOut]) -> Iterator[Record | BadRow]:
            for item in items:
                if isinstance(item, LeftOut):
                    counts.left_out[item.origin, item.reason] += item.rows
                else:
                    counts.rows[_get_key(item)] += 1
                    counts.left_out.update(item.list_left_out() if isinstance(item, Record) else ())
                    yield item

        for record in sort_messages(count_items(part.read(reader))):
            if isinstance(record, BadRow):
                counts.outcomes[_get_key(record), "quarantined"] += 1
                quarantine.add(record, part.source.name)
            else:
                yield record

    def _make_result(
        self, counts: ImportCounts, quarantine: Quarantine, saved_path: Path | None, *, is_dry_run: bool = False
    ) -> ImportResult:
        for item in self.unknown:
            counts.left_out[item.origin, item.reason] += item.rows
        return ImportResult(
            counts.total("added"),
            counts.total("existing"),
            source=", ".join(dict.fromkeys(part.source.name for part in self.parts)),
            mapped=counts.list_mapped(),
            left_out=counts.list_left_out(),
            quarantined=quarantine.count,
            quarantine=saved_path,
            faults=tuple(quarantine.faults),
            vectors_kept=self.writer.vectors_kept,
            vectors_replaced=self.writer.vectors_replaced,
            assumed_zone=", ".join(self._assumed_zones) or None,
            is_dry_run=is_dry_run,
        )


def _get_key(record: Record | BadRow) -> RowKey:
    if isinstance(record, BadRow):
        return record.origin, record.kind or "nothing"
    return record.draft.origin, record.kind


def _split(records: Iterator[Record]) -> Iterator[list[Record]]:
    while batch := list(islice(records, BATCH)):
        yield batch
