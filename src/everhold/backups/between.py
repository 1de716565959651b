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
from everhold.backups.rewinding import ChosenRow, HashMemory, RowRewinder, RowSource, has_same_content
from everhold.backups.uniques import UniqueValues
from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, OWNER_TABLES
from everhold.schema.declarations import DECLARATIONS
from everhold.schema.table import TENANT, Table

_Key = tuple[Any, ...]
_Values = dict[str, Any]
_REFERENCED_TABLES = frozenset(reference.target for table in DECLARATIONS.values() for reference in table.references)
_UNSEALED = {"sealed": None, "previous_hash": None, "hash": None}


@dataclass
class RowCounts:
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


class _ChunkOrigin(NamedTuple):
    """Where the chunks of a row are: the backup that has them, or None if neither has; and whether the row is exact."""

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
    _taken: dict[str, RowCounts] = field(default_factory=dict)
    _last_source: RowSource = RowSource.EXACT
    """The source of the row that was read last."""
    _ids: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    """The keys of rows in the tables that were read so far, for checking references to them."""
    _chunk_origins: dict[tuple[str, str, str], _ChunkOrigin] = field(default_factory=dict)

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
    def taken(self) -> RowCounts:
        """The counts of exact and approximate rows."""
        total = RowCounts()
        for name in RowCounts.__dataclass_fields__:
            setattr(total, name, sum(getattr(counts, name) for counts in self._taken.values()))
        return total

    @property
    def approximate(self) -> dict[str, int]:
        """The number of approximate rows by table."""
        counts = {name: taken.read_later + taken.earlier + taken.later for name, taken in self._taken.items()}
        return {name: count for name, count in counts.items() if count}

    def count_row(self, table: Table) -> None:
        """Count the row of a table that was read last."""
        self._taken[table.name].add(self._last_source)

    @cached_property
    def _rewinder(self) -> RowRewinder:
        earlier = self.earlier.manifest
        journal: Journal = read_journal(self.later, self.contents.decrypt, earlier.at, earlier.sequence)
        return RowRewinder(journal, self.at, self.hash_memory)

    def list_entities(self) -> list[type[Row]]:
        return self.earlier.list_entities()

    def read_fields(self, entity: type[Row]) -> Iterator[_Values]:
        table = CATALOG[entity]
        self._taken[table.name] = RowCounts()
        uniques = UniqueValues(table)
        for row in self._read_rows(entity, table):
            values = self._drop_missing_references(table, row.values)
            if values is None:
                continue
            self._last_source = row.source
            if not uniques.add(values):
                values, self._last_source = uniques.release(values), RowSource.LATER
            if values is None:
                continue
            if table.name in _REFERENCED_TABLES:
                self._ids[table.name].add((str(values.get(TENANT, "")), values["id"]))
            yield values

    def _read_rows(self, entity: type[Row], table: Table) -> Iterator[ChosenRow]:
        """Return the rows of a table as they were at the time, each with its source."""
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
                rows = self._rewind_rows(entity, table)
        return rows

    def _read_from(self, reader: BackupReader, entity: type[Row], source: RowSource) -> Iterator[ChosenRow]:
        """Yield the rows of one of the backups. Rows that the other backup has too are exact."""
        other_reader = self.earlier if reader is self.later else self.later
        other_rows = [*other_reader.read_fields(entity)]
        for values in reader.read_fields(entity):
            yield ChosenRow(values, RowSource.EXACT if values in other_rows else source)

    def _rewind_rows(self, entity: type[Row], table: Table) -> Iterator[ChosenRow]:
        """Yield the rows of a table without rules of its own."""
        earlier_rows = {_get_key(table, values): values for values in self.earlier.read_fields(entity)}
        for values in self.later.read_fields(entity):
            earlier = earlier_rows.pop(_get_key(table, values), None)
            chosen = ChosenRow(values, RowSource.EXACT) if values == earlier else self._choose(entity, values, earlier)
            if chosen is not None:
                self._note_chunk_origin(table, chosen, values, earlier)
                yield chosen
        for values in earlier_rows.values():
            chosen = self._rewinder.choose_missing(table, values)
            if chosen is not None:
                self._note_chunk_origin(table, chosen, None, values)
                yield chosen

    def _choose(self, entity: type[Row], values: _Values, earlier: _Values | None) -> ChosenRow | None:
        """Return a row as it was at the time.

        Rows are decrypted for comparison, because encryption is not deterministic.
        """
        plain = self.contents.decrypt(entity, values)
        plain_earlier = None if earlier is None else self.contents.decrypt(entity, earlier)
        chosen = self._rewinder.choose(CATALOG[entity], plain, plain_earlier)
        if chosen is None:
            return None
        if chosen.values == plain:
            return chosen._replace(values=values)
        if earlier is not None and chosen.values == plain_earlier:
            return chosen._replace(values=earlier)
        return chosen._replace(values=self.contents.encrypt(entity, chosen.values))

    def _note_chunk_origin(
        self, table: Table, chosen: ChosenRow, later: _Values | None, earlier: _Values | None
    ) -> None:
        if table.name not in OWNER_TABLES.values():
            return
        values, source = chosen.values, None
        if later is not None and (table.name == "memories" or has_same_content(values, later)):
            source = RowSource.LATER  # the chunks of a memory are kept when its text changes
        elif earlier is not None and has_same_content(values, earlier):
            source = RowSource.EARLIER
        self._chunk_origins[table.name, values[TENANT], values["id"]] = _ChunkOrigin(
            source, chosen.source is RowSource.EXACT
        )

    def _drop_missing_references(self, table: Table, values: _Values) -> _Values | None:
        """Return a row without references to rows that did not exist; None if it belongs to a row that did not
        exist."""
        for reference in table.references:
            if reference.kind is not None and values[reference.kind[0]] != reference.kind[1]:
                continue
            column = reference.columns[0]
            organization = "" if reference.target == "organizations" else values[TENANT]
            has_target = values[column] is None or (organization, values[column]) in self._ids[reference.target]
            if has_target or reference.target == table.name:
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
        sequences = set()
        for values in self.earlier.read_fields(entity):
            sequences.add(values["sequence"])
            yield ChosenRow(values, RowSource.EXACT)
        for values in self.later.read_fields(entity):
            if values["sequence"] not in sequences and values["timestamp"] <= self.at:
                yield ChosenRow(values | _UNSEALED, RowSource.EXACT)

    def _read_feed(self, entity: type[Row]) -> Iterator[ChosenRow]:
        """Yield the lines of the earlier backup, and those later lines whose idempotency keys identify a repeated
        call."""
        for values in self.earlier.read_fields(entity):
            yield ChosenRow(values, RowSource.EXACT)
        last_sequence = self.earlier.manifest.sequence
        for values in self.later.read_fields(entity):
            has_memory = (values[TENANT], values["entity_id"]) in self._ids["memories"]
            if values["sequence"] > last_sequence and values["idempotency_key"] is not None and has_memory:
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
        earlier_keys = set()
        for values in self.earlier.read_fields(entity):
            earlier_keys.add(_get_key(table, values))
            origin = self._find_chunk_origin(values)
            if origin.source is RowSource.EARLIER:
                yield ChosenRow(values, RowSource.EXACT if origin.is_exact else RowSource.EARLIER)
        for values in self.later.read_fields(entity):
            if self._find_chunk_origin(values).source is not RowSource.LATER or values["known_from"] > self.at:
                continue
            if values["known_to"] is not None and values["known_to"] > self.at:
                values |= {"known_to": None}
            # `known_from` of a chunk for a new model is when its text was written, not when the chunk was made.
            is_known = _get_key(table, values) in earlier_keys or values["known_from"] > self.earlier.manifest.at
            yield ChosenRow(values, RowSource.EXACT if is_known else RowSource.LATER)

    def _find_chunk_origin(self, chunk: Mapping[str, Any]) -> _ChunkOrigin:
        owner = (OWNER_TABLES[chunk["owner_kind"]], chunk[TENANT], chunk["owner_id"])
        return self._chunk_origins.get(owner, _ChunkOrigin())


def _get_key(table: Table, values: Mapping[str, Any]) -> _Key:
    return tuple(values[name] for name in table.key)
