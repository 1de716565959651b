"""Copy all rows of a store into another store of any kind, and verify the copy.

Tables are copied one after the other, parents before the rows that belong to them; vectors are copied unchanged. Move
marks in the target record the source and the progress, so an interrupted move continues where it stopped.
Tables that belong to no organization describe one store only and are not moved: leases, the progress of projections,
schema versions. The one exception is the table of embedding models, which is copied last.

The copy is verified by a hash per table of every row's values, which does not depend on the order of rows. Generated
numbers are left out: each store generates its own, in the same order.
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
from everhold.model import EmbeddingModel, LogHead, Memory, MoveMark, Organization
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.ports.time_partitions import find_month
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.schema.catalog import CATALOG, TABLES, get_key
from everhold.schema.operations import Delete, Ensure, Op, Patch, Put, Where
from everhold.schema.table import Table

_BATCH = 500  # rows in one commit
logger = logging.getLogger(__name__)

_HASH_MODULUS = 2**256  # hashes are added modulo the size of a SHA-256 digest


class TableHash(NamedTuple):
    """The number of rows of a table, and the hash of their values."""

    rows: int
    hash: str


class Moved(NamedTuple):
    """The number of rows that this call copied, and the hash of every table in both stores."""

    copied: int
    tables: dict[str, TableHash]

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


def list_moved_entities() -> list[tuple[type[Row], Table]]:
    return [(entity, table) for entity, table in CATALOG.items() if table.tenant is not None]


def move(
    source: Records,
    target: Records,
    report: ReportProgress = ignore_progress,
    copy_files: Callable[[], None] = lambda: None,
) -> Moved:
    """Copy every row, then compare both stores; continue an interrupted move where it stopped.

    `copy_files` is called after the rows are copied, to copy the files that they name.

    Raise AlreadyExists if the target holds other data, and Conflict if the stores differ after the copy.
    """
    _check_different_stores(source, target)
    identity = _identify(source)
    marks = _read_marks(target)
    if not marks:
        first_rows = _find_first_rows(target)
        if first_rows:
            return Moved(0, _compare_finished(source, target, first_rows, report))
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
    copy_files()
    tables = compare(source, target, report)
    target.commit([Delete(MoveMark, (name,)) for name in _list_tables()])
    return Moved(copied, tables)


def list_months(records: Records) -> set[datetime]:
    """Return the months of a store's memories."""
    return {find_month(moment) for (moment,) in records.columns(Memory, None, ("created_at",), deleted=True)}


def is_unfinished(records: Records) -> bool:
    """Return whether a move into this store is unfinished, so that it has only a part of another store's rows."""
    return bool(_read_marks(records))


def _count_rows(records: Records) -> int:
    return sum(records.count(entity, None, deleted=True) for entity, _ in list_moved_entities())


# progress of the move


def _list_tables() -> list[str]:
    return [table.name for _, table in list_moved_entities()]


def _identify(source: Records) -> str:
    """Return a hash of a store's organizations and their creation times. It identifies the store without a write."""
    organizations = sorted(
        (row.id, clock.micros(row.created_at)) for row in source.scan(Organization, None, deleted=True)
    )
    return hashlib.sha256(json.dumps(organizations).encode()).hexdigest()


def _check_different_stores(source: Records, target: Records) -> None:
    """Raise InvalidInput if both are the same store, by writing a probe to the target and reading the source."""
    # Addresses cannot be compared: one server may have several names.
    probe = MoveMark(table_name=clock.make_id("probe"), source="probe")
    target.commit([Put(probe)])
    is_same = bool(source.scan(MoveMark, None, [Where("table_name", Op.EQ, probe.table_name)]))
    target.commit([Delete(MoveMark, (probe.table_name,))])
    if is_same:
        raise InvalidInput("the store to move into is the one that is moved", remedy="name another")


def _read_marks(target: Records) -> dict[str, MoveMark]:
    """Return the marks of tables, without probes that interrupted moves left behind."""
    return {mark.table_name: mark for mark in target.scan(MoveMark, None) if mark.table_name in TABLES}


def _find_first_rows(target: Records) -> str:
    """Return the number and table of the first rows found in a store, or "" if it is empty."""
    for entity, table in list_moved_entities():
        if count := target.count(entity, None, deleted=True):
            return f"{count} rows of {table.name}"
    return ""


def _compare_finished(
    source: Records, target: Records, first_rows: str, report: ReportProgress
) -> dict[str, TableHash]:
    """Return the hashes of a finished move; raise AlreadyExists if the target holds other data."""
    try:
        return compare(source, target, report)
    except Conflict:
        fact = f"the store to move into holds {first_rows} already"
        raise AlreadyExists(fact, remedy="move into an empty one") from None


# copying


def _copy(
    source: Records, target: Records, entity: type[Row], table: Table, mark: MoveMark, counter: StepCounter
) -> int:
    if table.generated:
        copied = _copy_numbered(source, target, entity, table, mark.last_sequence, counter)
    else:
        copied = _copy_keyed(source, target, entity, table, counter)
    target.commit([Patch(MoveMark, (table.name,), {"is_complete": True})])
    return copied


def _copy_keyed(source: Records, target: Records, entity: type[Row], table: Table, counter: StepCounter) -> int:
    """Copy the rows that the target lacks. Rows that it already has come from an interrupted move."""
    keys = (
        {get_key(row) for row in read_rows(target, entity, table)} if target.count(entity, None, deleted=True) else ()
    )
    counter.add(len(keys))
    copied = 0
    with closing(read_rows(source, entity, table)) as source_rows:
        rows = (row for row in order_parents_first(source_rows, table) if get_key(row) not in keys)
        while batch := list(islice(rows, _BATCH)):
            target.commit([Put(row) for row in batch])
            copied += len(batch)
            counter.add(len(batch))
    return copied


def _copy_numbered(
    source: Records, target: Records, entity: type[Row], table: Table, after: int, counter: StepCounter
) -> int:
    """Copy rows in the order of their generated sequence numbers.

    The target generates new numbers, so keys cannot show what was copied. Each batch is committed with its mark, so
    no row is copied twice.
    """
    counter.add(target.count(entity, None, deleted=True) if after else 0)
    copied = 0
    while batch := source.scan(entity, None, [Where(str(table.generated), Op.GT, after)], limit=_BATCH, deleted=True):
        after = batch[-1].__dict__[str(table.generated)]
        mark = Patch(MoveMark, (table.name,), {"last_sequence": after})
        target.commit([*map(Put, batch), mark])
        copied += len(batch)
        counter.add(len(batch))
    return copied


def read_rows(records: Records, entity: type[Row], table: Table) -> Generator[Row]:
    """Yield every row of a table, organization by organization, deleted ones included.

    Close the generator before the store, because it may have an open cursor.
    """
    if table.tenant in (None, "id") or entity is LogHead:  # a head outlives its organization
        yield from records.scan(entity, None, deleted=True)
        return
    for organization in records.scan(Organization, None, deleted=True):
        for values in records.columns(entity, organization.id, table.names, deleted=True):
            yield entity.build_complete(dict(zip(table.names, values, strict=True)))


def order_parents_first(rows: Iterable[Row], table: Table) -> Iterable[Row]:
    """Return the rows in an order in which each row follows the row of the same table that it refers to."""
    self_references = [reference for reference in table.references if reference.target == table.name]
    if not self_references:
        return rows
    [column] = self_references[0].columns
    rows_by_key = {get_key(row): row for row in rows}
    ordered_rows: dict[tuple[Any, ...], Row] = {}
    for start_key in rows_by_key:
        ancestry = []
        key: tuple[Any, ...] | None = start_key
        # The last condition ends a cycle of references.
        while key in rows_by_key and key not in ordered_rows and key not in ancestry:
            ancestry.append(key)
            parent_id = rows_by_key[key].__dict__[column]
            key = None if parent_id is None else (*key[:-1], parent_id)
        ordered_rows.update((key, rows_by_key[key]) for key in reversed(ancestry))
    return ordered_rows.values()


def _copy_models(source: Records, target: Records) -> None:
    """Copy the rows that say which models embedded the chunks, and which model is in use."""
    models = source.scan(EmbeddingModel, None)
    if models:
        target.commit([Ensure(model) for model in models])


# comparing


def compare(source: Records, target: Records, report: ReportProgress = ignore_progress) -> dict[str, TableHash]:
    """Return the hash of every table; raise Conflict if a table differs between the stores."""
    counter = StepCounter(report, "comparing", _count_rows(source))
    hashes: dict[str, TableHash] = {}
    for entity, table in list_moved_entities():
        # Adding 0 reports that work continues. Only the target's rows are counted, so the total is not exceeded.
        expected = compute_table_hash(source, entity, table, lambda _: counter.add(0))
        actual = compute_table_hash(target, entity, table, counter.add)
        if expected != actual:
            raise Conflict(
                f"{table.name} is not the same in both stores ({expected.rows} rows here, {actual.rows} there)",
                remedy="stop what writes to one of them, and move again into an empty store",
            )
        hashes[table.name] = expected
    return hashes


def compute_table_hash(
    records: Records, entity: type[Row], table: Table, progress: Callable[[int], None] = lambda _: None
) -> TableHash:
    """Return the number of rows and the sum of their hashes, which does not depend on their order."""
    total, count = 0, 0
    with closing(read_rows(records, entity, table)) as rows:
        while batch := list(islice(rows, _BATCH)):
            total += sum(hash_row(row, table) for row in batch)
            count += len(batch)
            progress(len(batch))
    return TableHash(count, f"{total % _HASH_MODULUS:064x}")


def hash_row(row: Row, table: Table) -> int:
    values = {name: value for name, value in row.__dict__.items() if name != table.generated}
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_convert_to_json)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())


def _convert_to_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return clock.micros(value)
    return bytes(value).hex()
