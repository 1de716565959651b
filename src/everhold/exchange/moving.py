"""Everything of one store into another, whatever both are, and the proof that it arrived.

Tables are moved one after the other, parents before what belongs to them; vectors are copied as they are. How far it
came, and of which store, is kept as move marks in the store that is moved into, in the same commit as the rows, so that
a move that was cut short goes on where it was. Tables that belong to no organization are about one store only and are
not moved: leases, how far projections are, schema versions. Only the embedding models are copied, after the rows.

The proof is a logical hash per table, of every row's values in no particular order. The number that a store draws for
a row is left out: each store draws its own, in the same order.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from everhold import clock
from everhold.errors import AlreadyExists, Conflict, InvalidInput
from everhold.model import EmbeddingModel, LogHead, MoveMark, Organization
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.schema.catalog import CATALOG, TABLES, get_key
from everhold.schema.operations import Delete, Ensure, Op, Patch, Put, Where
from everhold.schema.table import Table

_BATCH = 500
logger = logging.getLogger(__name__)

_SPACE = 2**256


class TableHash(NamedTuple):
    """How many rows a table has, and the hash of what they say."""

    rows: int
    hash: str


class Moved(NamedTuple):
    """How many rows were copied now, and what both stores hold by table."""

    copied: int
    tables: dict[str, TableHash]

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


def list_moved_entities() -> list[tuple[type[Row], Table]]:
    return [(entity, table) for entity, table in CATALOG.items() if table.tenant is not None]


def move(source: Records, target: Records, report: ReportProgress = ignore_progress) -> Moved:
    """Copy every row, then compare. AlreadyExists if the target holds something else; Conflict if they differ.

    An interrupted move continues where it stopped. Rows that it has copied count as done.
    """
    _refuse_itself(source, target)
    identity = _identify(source)
    marks = _read_marks(target)
    if not marks:
        held = _find_first_rows(target)
        if held:
            return Moved(0, _compare_finished(source, target, held, report))
        target.commit([Ensure(MoveMark(table_name=name, source=identity)) for name in _list_tables()])
        marks = _read_marks(target)
    if any(mark.source != identity for mark in marks.values()):
        raise AlreadyExists(
            "the store to move into holds an unfinished move of another store, or of this one before it was changed",
            remedy="finish that move, or move into an empty store",
        )
    complete = sum(mark.is_complete for mark in marks.values())
    if complete:
        logger.info("resuming a move: %d of %d tables are copied", complete, len(marks))
    counter = StepCounter(report, "copying", _count_rows(source))
    copied = 0
    for entity, table in list_moved_entities():
        if marks[table.name].is_complete:
            counter.add(source.count(entity, None, deleted=True))
        else:
            copied += _copy(source, target, entity, table, marks[table.name], counter)
    _copy_models(source, target)
    tables = compare(source, target, report)
    target.commit([Delete(MoveMark, (name,)) for name in _list_tables()])
    return Moved(copied, tables)


def is_unfinished(records: Records) -> bool:
    """Return whether a move into this store was begun and not finished, so that it holds only part of another."""
    return bool(_read_marks(records))


def _count_rows(records: Records) -> int:
    return sum(records.count(entity, None, deleted=True) for entity, _ in list_moved_entities())


# how far it came


def _list_tables() -> list[str]:
    return [table.name for _, table in list_moved_entities()]


def _identify(source: Records) -> str:
    """Return a hash that tells one store from others without writing to it: of its organizations and their ages."""
    organizations = sorted(
        (row.id, clock.micros(row.created_at)) for row in source.scan(Organization, None, deleted=True)
    )
    return hashlib.sha256(json.dumps(organizations).encode()).hexdigest()


def _refuse_itself(source: Records, target: Records) -> None:
    """Refuse two addresses of one store: what is written through one is then seen through the other."""
    probe = MoveMark(table_name=clock.make_id("probe"), source="probe")
    target.commit([Put(probe)])
    is_same = bool(source.scan(MoveMark, None, [Where("table_name", Op.EQ, probe.table_name)]))
    target.commit([Delete(MoveMark, (probe.table_name,))])
    if is_same:
        raise InvalidInput("the store to move into is the one that is moved", remedy="name another")


def _read_marks(target: Records) -> dict[str, MoveMark]:
    """Return the marks of tables, without a probe that an interrupted move has left."""
    return {mark.table_name: mark for mark in target.scan(MoveMark, None) if mark.table_name in TABLES}


def _find_first_rows(target: Records) -> str:
    """What a store holds first, if it holds anything."""
    for entity, table in list_moved_entities():
        if found := target.count(entity, None, deleted=True):
            return f"{found} rows of {table.name}"
    return ""


def _compare_finished(source: Records, target: Records, held: str, report: ReportProgress) -> dict[str, TableHash]:
    """The target is not empty: either this very move was finished before, or it is another's."""
    try:
        return compare(source, target, report)
    except Conflict:
        raise AlreadyExists(f"the store to move into holds {held} already", remedy="move into an empty one") from None


# copying


def _copy(
    source: Records, target: Records, entity: type[Row], table: Table, mark: MoveMark, counter: StepCounter
) -> int:
    if table.generated:
        copied = _copy_drawn(source, target, entity, table, mark.last_sequence, counter)
    else:
        copied = _copy_keyed(source, target, entity, table, counter)
    target.commit([Patch(MoveMark, (table.name,), {"is_complete": True})])
    return copied


def _copy_keyed(source: Records, target: Records, entity: type[Row], table: Table, counter: StepCounter) -> int:
    """Rows that are there already are those of a move that was cut short."""
    there = {get_key(row) for row in rows_of(target, entity, table)} if target.count(entity, None, deleted=True) else ()
    counter.add(len(there))
    copied = 0
    with closing(rows_of(source, entity, table)) as found:
        rows = (row for row in parents_first(found, table) if get_key(row) not in there)
        while batch := list(islice(rows, _BATCH)):
            target.commit([Put(row) for row in batch])
            copied += len(batch)
            counter.add(len(batch))
    return copied


def _copy_drawn(
    source: Records, target: Records, entity: type[Row], table: Table, after: int, counter: StepCounter
) -> int:
    """In their order. Each batch is one commit with word of how far it goes, so none is copied twice."""
    counter.add(target.count(entity, None, deleted=True) if after else 0)
    copied = 0
    while batch := source.scan(entity, None, [Where(str(table.generated), Op.GT, after)], limit=_BATCH, deleted=True):
        after = batch[-1].__dict__[str(table.generated)]
        reached = Patch(MoveMark, (table.name,), {"last_sequence": after})
        target.commit([*map(Put, batch), reached])
        copied += len(batch)
        counter.add(len(batch))
    return copied


def rows_of(records: Records, entity: type[Row], table: Table) -> Generator[Row]:
    """Every row of a table, organization by organization, deleted ones too. To be closed before the store is."""
    if table.tenant in (None, "id") or entity is LogHead:  # a head outlives its organization
        yield from records.scan(entity, None, deleted=True)
        return
    for organization in records.scan(Organization, None, deleted=True):
        for values in records.columns(entity, organization.id, table.names, deleted=True):
            yield entity.build_complete(dict(zip(table.names, values, strict=True)))


def parents_first(rows: Iterable[Row], table: Table) -> Iterable[Row]:
    """The rows as they come, unless some refer to others of the same table: those must come after them."""
    own = [reference for reference in table.references if reference.target == table.name]
    if not own:
        return rows
    [column] = own[0].columns
    waiting = {get_key(row): row for row in rows}
    ordered: dict[tuple[Any, ...], Row] = {}
    for first in waiting:
        line = []
        key: tuple[Any, ...] | None = first
        while key in waiting and key not in ordered and key not in line:
            line.append(key)
            above = waiting[key].__dict__[column]
            key = None if above is None else (*key[:-1], above)
        ordered.update((key, waiting[key]) for key in reversed(line))
    return ordered.values()


def _copy_models(source: Records, target: Records) -> None:
    """Copy which embedding models the chunks are of, and which of them serves."""
    models = source.scan(EmbeddingModel, None)
    if models:
        target.commit([Ensure(model) for model in models])


# comparing


def compare(source: Records, target: Records, report: ReportProgress = ignore_progress) -> dict[str, TableHash]:
    """Return the hash of every table, which is the same on both sides. Conflict if one is not."""
    counter = StepCounter(report, "comparing", _count_rows(source))
    found: dict[str, TableHash] = {}
    for entity, table in list_moved_entities():
        one = table_hash(source, entity, table, lambda _: counter.add(0))
        other = table_hash(target, entity, table, counter.add)
        if one != other:
            raise Conflict(
                f"{table.name} is not the same in both stores ({one.rows} rows here, {other.rows} there)",
                remedy="stop what writes to one of them, and move again into an empty store",
            )
        found[table.name] = one
    return found


def table_hash(
    records: Records, entity: type[Row], table: Table, progress: Callable[[int], None] = lambda _: None
) -> TableHash:
    """The sum of the hashes of all rows, so that their order does not matter."""
    total, count = 0, 0
    with closing(rows_of(records, entity, table)) as rows:
        while batch := list(islice(rows, _BATCH)):
            total += sum(hash_row(row, table) for row in batch)
            count += len(batch)
            progress(len(batch))
    return TableHash(count, f"{total % _SPACE:064x}")


def hash_row(row: Row, table: Table) -> int:
    said = {name: value for name, value in row.__dict__.items() if name != table.generated}
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return clock.micros(value)
    return bytes(value).hex()
