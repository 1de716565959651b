"""Import the data of another system.

    read the input → make records of its rows → check them → write them in batches

The input is read twice. The first pass writes nothing: a damaged file is refused as a whole, and rows that cannot be
imported are counted. The second pass writes. Rows that are stored already are skipped, so an interrupted import can be
repeated.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from everhold.errors import AlreadyExists, UnreadableFile
from everhold.import_results import ImportResult, MappedRows, RowsLeftOut
from everhold.importers.quarantine import Quarantine
from everhold.importers.records import Record, RecordReader
from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, SourceItem
from everhold.progress import ReportProgress, StepCounter

BATCH = 250

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
class ForeignImport:
    """One import: the source, its input, and the reader and the writer of its rows."""

    source: ImportSource
    opened: ImportInput
    make_reader: Callable[[], RecordReader]
    writer: RecordWriter
    report: ReportProgress

    def check(self) -> ImportResult:
        """Read everything and store nothing. Raise InvalidInput if the input is damaged."""
        quarantine = Quarantine(self.source.name)
        try:
            return self._check(quarantine)
        finally:
            quarantine.close()

    def run(self, quarantine_path: Path | None, *, overwrite: bool = False) -> ImportResult:
        """Import everything that can be imported, and write the other rows to a file."""
        if quarantine_path is not None and not overwrite and quarantine_path.exists():
            raise AlreadyExists(f"{quarantine_path} exists", remedy="name another file for rows that are not imported")
        total = self.check().added  # raises before anything is written if the input is damaged
        self.writer.prepare()
        counts, quarantine = ImportCounts(), Quarantine(self.source.name)
        counter = StepCounter(self.report, "importing", total)
        try:
            for batch in _split(self._read(counts, quarantine)):
                outcomes = self.writer.write(batch)
                for record, outcome in zip(batch, outcomes, strict=True):
                    counts.outcomes[_get_key(record), outcome.name] += 1
                    if outcome.reason:
                        quarantine.add(record.refuse(outcome.reason))
                counter.add(len(batch))
            self.writer.finish()
            saved = quarantine_path if quarantine.count else None
            if saved is not None:
                quarantine.save(saved, overwrite=overwrite)
            return self._make_result(counts, quarantine, saved)
        finally:
            quarantine.close()

    def _check(self, quarantine: Quarantine) -> ImportResult:
        counts = ImportCounts()
        counter = StepCounter(self.report, "checking")
        for batch in _split(self._read(counts, quarantine)):
            for record in batch:
                reason = self.writer.find_fault(record)
                counts.outcomes[_get_key(record), "quarantined" if reason else "added"] += 1
                if reason:
                    quarantine.add(record.refuse(reason))
            counter.add(len(batch))
        return self._make_result(counts, quarantine, None, is_dry_run=True)

    def _read(self, counts: ImportCounts, quarantine: Quarantine) -> Iterator[Record]:
        """Yield the records of the input. Bad rows and rows that are left out are counted and collected."""
        reader = self.make_reader()
        for item in self._iterate_items():
            if isinstance(item, LeftOut):
                counts.left_out[item.origin, item.reason] += item.rows
                continue
            record = item if isinstance(item, BadRow) else reader.read(item)
            key = _get_key(record)
            counts.rows[key] += 1
            if isinstance(record, BadRow):
                counts.outcomes[key, "quarantined"] += 1
                quarantine.add(record)
            else:
                yield record

    def _iterate_items(self) -> Iterator[SourceItem]:
        """Yield the items of the source. If tables or columns that it expects are missing, raise InvalidInput."""
        try:
            yield from self.source.read(self.opened)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise UnreadableFile(
                f"{self.opened.files.path.name} is not as {self.source.name} writes it: {error!r}",
                remedy="check which program wrote the file",
            ) from error

    def _make_result(
        self, counts: ImportCounts, quarantine: Quarantine, saved: Path | None, *, is_dry_run: bool = False
    ) -> ImportResult:
        """Return the result of the import. `saved` is the file with the rows that were not imported."""
        return ImportResult(
            counts.total("added"),
            counts.total("existing"),
            source=self.source.name,
            mapped=counts.list_mapped(),
            left_out=counts.list_left_out(),
            quarantined=quarantine.count,
            quarantine=saved,
            faults=tuple(quarantine.faults),
            vectors_kept=self.writer.vectors_kept,
            vectors_replaced=self.writer.vectors_replaced,
            is_dry_run=is_dry_run,
        )


def _get_key(record: Record | BadRow) -> RowKey:
    if isinstance(record, BadRow):
        return record.origin, record.kind or "nothing"
    return record.draft.origin, record.kind


def _split(records: Iterator[Record]) -> Iterator[list[Record]]:
    while batch := list(islice(records, BATCH)):
        yield batch
