"""Reconstruct the state at a time between two backups.

Changes of the later backup's rows after that time are undone, latest first, as far as the journal, the revisions, the
messages and the access log show them. As a check, the changes back to the earlier backup are undone too. If the result
is the earlier backup's row, or shows that the row was added in between, all changes are known and the row is exact.
Other rows are approximate.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from everhold.backups.files import describe_entry
from everhold.backups.journal import Journal, read_journal
from everhold.backups.manifest import Manifest
from everhold.backups.reading import BackupReader
from everhold.backups.taking_back import ChosenRow, HashMemory, RowSource, TakeBack, has_same_content
from everhold.backups.uniques import UniqueValues
from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, OWNER_TABLES
from everhold.schema.declarations import DECLARATIONS
from everhold.schema.table import TENANT, Table

_Key = tuple[Any, ...]
_Values = dict[str, Any]
_REFERRED_TO = frozenset(reference.target for table in DECLARATIONS.values() for reference in table.references)
_UNSEALED = {"sealed": None, "previous_hash": None, "hash": None}


@dataclass
class TakenRows:
    """Counts of rows: exact ones, and approximate ones by the backup that they come from.

    `read_later` counts rows that are exact except for the number and the time of their reads.
    """

    exact: int = 0
    read_later: int = 0
    earlier: int = 0
    later: int = 0

    def add(self, source: RowSource) -> None:
        setattr(self, source.value, getattr(self, source.value) + 1)


class RowContents(Protocol):
    """Decrypts the values of rows. Values that cannot be decrypted are not changed."""

    def decrypt(self, entity: type[Row], values: _Values) -> _Values: ...

    def encrypt(self, entity: type[Row], values: _Values) -> _Values: ...


class PlainContents:
    """Returns rows unchanged, for backups without encryption."""

    def decrypt(self, entity: type[Row], values: _Values) -> _Values:
        return values

    def encrypt(self, entity: type[Row], values: _Values) -> _Values:
        return values


class _Content(NamedTuple):
    """The backup that has the chunks of a row's text, or None if neither has them, and whether the row is exact."""

    source: RowSource | None = None
    is_exact: bool = True


@dataclass
class RowsBetween:
    """Reads tables as they were at a time between two backups. It has the interface of `BackupReader`.

    `hash_memory` returns the content hash of a memory, by which duplicates are found.
    """

    earlier: BackupReader
    later: BackupReader
    at: datetime
    hash_memory: HashMemory
    contents: RowContents
    _taken: dict[str, TakenRows] = field(default_factory=dict)
    _source: RowSource = RowSource.EXACT
    _ids: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    """The keys of rows in the tables that were read so far, for checking references to them."""
    _contents: dict[tuple[str, str, str], "_Content"] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        return f"{self.earlier.manifest.id} at {self.at.isoformat()}"

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the earlier backup, with the files of both backups."""
        files = {describe_entry(entry): entry for entry in (*self.later.manifest.files, *self.earlier.manifest.files)}
        return self.earlier.manifest.model_copy(update={"files": tuple(files.values())})

    @property
    def unreadable(self) -> dict[str, int]:
        return self.earlier.unreadable

    @property
    def taken(self) -> TakenRows:
        """The counts of exact and approximate rows."""
        parts = self._taken.values()
        return TakenRows(*(sum(getattr(part, name) for part in parts) for name in TakenRows.__dataclass_fields__))

    @property
    def approximate(self) -> dict[str, int]:
        """The number of approximate rows by table."""
        counts = {name: taken.read_later + taken.earlier + taken.later for name, taken in self._taken.items()}
        return {name: count for name, count in counts.items() if count}

    def count_row(self, table: Table) -> None:
        """Count the row of a table that was read last."""
        self._taken[table.name].add(self._source)

    @cached_property
    def _take_back(self) -> TakeBack:
        earlier = self.earlier.manifest
        journal: Journal = read_journal(self.later, self.contents.decrypt, earlier.at, earlier.sequence)
        return TakeBack(journal, self.at, self.hash_memory)

    def list_entities(self) -> list[type[Row]]:
        return self.earlier.list_entities()

    def read_fields(self, entity: type[Row]) -> Iterator[_Values]:
        table = CATALOG[entity]
        self._taken[table.name] = TakenRows()
        uniques = UniqueValues(table)
        for chosen in self._read_rows(entity, table):
            fitting = self._drop_mentions(table, chosen.values)
            if fitting is None:
                continue
            self._source = chosen.source
            values: _Values | None = fitting
            if not uniques.add(fitting):
                values, self._source = uniques.release(fitting), RowSource.LATER
            if values is None:
                continue
            if table.name in _REFERRED_TO:
                self._ids[table.name].add((str(values.get(TENANT, "")), values["id"]))
            yield values

    def _read_rows(self, entity: type[Row], table: Table) -> Iterator[ChosenRow]:
        if table.name not in self.later.manifest.tables:
            return (ChosenRow(values, RowSource.EARLIER) for values in self.earlier.read_fields(entity))
        match table.name:
            case "memory_access_logs":
                rows = self._read_log(entity)
            case "outbox":
                rows = self._read_feed(entity)
            case "counters" | "log_heads":
                rows = self._read_from(self.earlier, entity, RowSource.EARLIER)
            case "embedding_models":  # the chunks are those of the later backup
                rows = self._read_from(self.later, entity, RowSource.LATER)
            case "maintenance_runs":
                rows = self._read_runs(entity)
            case "chunks":
                rows = self._read_chunks(entity, table)
            case _:
                rows = self._read_others(entity, table)
        return rows

    def _read_from(self, reader: BackupReader, entity: type[Row], source: RowSource) -> Iterator[ChosenRow]:
        """Yield the rows of one of the backups. Rows that the other backup has too are exact."""
        other = self.earlier if reader is self.later else self.later
        others = [*other.read_fields(entity)]
        for values in reader.read_fields(entity):
            yield ChosenRow(values, RowSource.EXACT if values in others else source)

    def _read_others(self, entity: type[Row], table: Table) -> Iterator[ChosenRow]:
        before = {_get_key(table, values): values for values in self.earlier.read_fields(entity)}
        for values in self.later.read_fields(entity):
            earlier = before.pop(_get_key(table, values), None)
            chosen = ChosenRow(values, RowSource.EXACT) if values == earlier else self._choose(entity, values, earlier)
            if chosen is not None:
                self._note_content(table, chosen, values, earlier)
                yield chosen
        for values in before.values():
            chosen = self._take_back.choose_missing(table, values)
            if chosen is not None:
                self._note_content(table, chosen, None, values)
                yield chosen

    def _choose(self, entity: type[Row], values: _Values, earlier: _Values | None) -> ChosenRow | None:
        """Return a row as it was at the time.

        Rows are decrypted for comparison, because encryption is not deterministic.
        """
        plain = self.contents.decrypt(entity, values)
        plain_earlier = None if earlier is None else self.contents.decrypt(entity, earlier)
        chosen = self._take_back.choose(CATALOG[entity], plain, plain_earlier)
        if chosen is None or chosen.values == plain:
            return chosen and chosen._replace(values=values)
        if earlier is not None and chosen.values == plain_earlier:
            return chosen._replace(values=earlier)
        return chosen._replace(values=self.contents.encrypt(entity, chosen.values))

    def _note_content(self, table: Table, chosen: ChosenRow, later: _Values | None, earlier: _Values | None) -> None:
        if table.name not in OWNER_TABLES.values():
            return
        values, source = chosen.values, None
        if later is not None and (table.name == "memories" or has_same_content(values, later)):
            source = RowSource.LATER  # the chunks of a memory are kept when its text changes
        elif earlier is not None and has_same_content(values, earlier):
            source = RowSource.EARLIER
        self._contents[table.name, values[TENANT], values["id"]] = _Content(source, chosen.source is RowSource.EXACT)

    def _drop_mentions(self, table: Table, values: _Values) -> _Values | None:
        """Return a row without references to rows that did not exist; None if it belongs to a row that did not
        exist."""
        for reference in table.references:
            if reference.kind is not None and values[reference.kind[0]] != reference.kind[1]:
                continue
            column = reference.columns[0]
            organization = "" if reference.target == "organizations" else values[TENANT]
            is_there = values[column] is None or (organization, values[column]) in self._ids[reference.target]
            if is_there or reference.target == table.name:
                continue
            if reference.on_delete == "cascade":
                return None
            values = {**values, column: None}
        return values

    # tables with rules of their own

    def _read_log(self, entity: type[Row]) -> Iterator[ChosenRow]:
        """Yield the lines up to the time.

        Lines that the earlier backup does not have are chained again in the new store.
        """
        numbers = set()
        for values in self.earlier.read_fields(entity):
            numbers.add(values["sequence"])
            yield ChosenRow(values, RowSource.EXACT)
        for values in self.later.read_fields(entity):
            if values["sequence"] not in numbers and values["timestamp"] <= self.at:
                yield ChosenRow(values | _UNSEALED, RowSource.EXACT)

    def _read_feed(self, entity: type[Row]) -> Iterator[ChosenRow]:
        """Yield the earlier backup's lines, and later lines with idempotency keys, so that repeated calls are
        recognised."""
        for values in self.earlier.read_fields(entity):
            yield ChosenRow(values, RowSource.EXACT)
        last = self.earlier.manifest.sequence
        for values in self.later.read_fields(entity):
            is_there = (values[TENANT], values["entity_id"]) in self._ids["memories"]
            if values["sequence"] > last and values["idempotency_key"] is not None and is_there:
                yield ChosenRow(values, RowSource.EXACT)

    def _read_runs(self, entity: type[Row]) -> Iterator[ChosenRow]:
        for values in self.later.read_fields(entity):
            if values["started_at"] > self.at:
                continue
            if values["finished_at"] is not None and values["finished_at"] > self.at:
                values |= {"finished_at": None, "jobs": {}}
            if values["undone_at"] is not None and values["undone_at"] > self.at:
                values |= {"undone_at": None}
            yield ChosenRow(values, RowSource.EXACT)

    def _read_chunks(self, entity: type[Row], table: Table) -> Iterator[ChosenRow]:
        """Yield the chunks of the texts that rows had at the time."""
        before = set()
        for values in self.earlier.read_fields(entity):
            before.add(_get_key(table, values))
            content = self._find_content(values)
            if content.source is RowSource.EARLIER:
                yield ChosenRow(values, RowSource.EXACT if content.is_exact else RowSource.EARLIER)
        for values in self.later.read_fields(entity):
            if self._find_content(values).source is not RowSource.LATER or values["known_from"] > self.at:
                continue
            if values["known_to"] is not None and values["known_to"] > self.at:
                values |= {"known_to": None}
            # `known_from` of a chunk for a new model is when its text was written, not when the chunk was made.
            is_known = _get_key(table, values) in before or values["known_from"] > self.earlier.manifest.at
            yield ChosenRow(values, RowSource.EXACT if is_known else RowSource.LATER)

    def _find_content(self, chunk: Mapping[str, Any]) -> _Content:
        owner = (OWNER_TABLES[chunk["owner_kind"]], chunk[TENANT], chunk["owner_id"])
        return self._contents.get(owner, _Content())


def _get_key(table: Table, values: Mapping[str, Any]) -> _Key:
    return tuple(values[name] for name in table.key)
