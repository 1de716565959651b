"""Put the rows of a backup into a store.

    check every row and what it refers to → write the rows, parents first → mark the store as complete

A backup is not trusted: the first pass writes nothing and refuses the whole backup if one row is invalid. Marks in the
store record the progress of the second pass, so that the next call continues an interrupted restore. A row with a
generated number gets a new number; the order stays the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import NamedTuple, Protocol

from everhold.errors import AlreadyExists, Argument, InvalidInput, Remedy, StoreDamaged
from everhold.exchange.checking import BundleChecks
from everhold.exchange.comparing import Comparison, RowVerdict
from everhold.exchange.importing import make_additions
from everhold.exchange.moving import order_parents_first
from everhold.model import AccessLog, MoveMark
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.schema.catalog import CATALOG, get_key
from everhold.schema.operations import Delete, Ensure, Operation, Patch, Put
from everhold.schema.table import Table

_BATCH = 500


class BackupRows(Protocol):
    """The rows of a backup, table by table. `identity` is different for each backup and each part of one."""

    @property
    def identity(self) -> str: ...

    def list_entities(self) -> list[type[Row]]:
        """Return the entities, parents before the rows that belong to them."""
        ...

    def read(self, entity: type[Row], *, is_checked: bool) -> Iterator[Row]:
        """Yield the rows of a table; with `is_checked`, without validating them again."""
        ...


class RestoredRows(NamedTuple):
    """The number of added rows by table, and of rows that the store has already, perhaps in another version."""

    added: dict[str, int]
    existing: int = 0

    @property
    def rows(self) -> int:
        return sum(self.added.values())


def restore_rows(
    records: Records, source: BackupRows, *, add: bool = False, report: ReportProgress = ignore_progress
) -> RestoredRows:
    """Write the rows of a backup into an empty store; with `add`, write those that a store in use lacks.

    Raise AlreadyExists if the store has rows, unless an interrupted restore of the same backup wrote them, and
    StoreDamaged or InvalidInput if the backup has rows that Everhold never writes. In both cases nothing is written.
    """
    if add:
        return _add_missing(records, source, report)
    marks = {mark.table_name: mark for mark in records.scan(MoveMark, None)}
    if not marks:
        require_empty(records)
    elif any(mark.source != source.identity for mark in marks.values()):
        raise AlreadyExists(
            "the store has an unfinished move, or an unfinished restore of another backup",
            remedy="finish that, or restore into an empty store",
        )
    total = _check_rows(records, source, StepCounter(report, "checking"))
    names = {entity: CATALOG[entity].name for entity in source.list_entities()}
    if not marks:
        marks = {name: MoveMark(table_name=name, source=source.identity) for name in names.values()}
        records.commit([Ensure(mark) for mark in marks.values()])
    counter = StepCounter(report, "restoring", total)
    added_counts = {
        name: _write_table(records, source, entity, marks[name], counter)
        for entity, name in names.items()
        if not marks[name].is_complete
    }
    records.commit([Delete(MoveMark, (name,)) for name in marks])
    return RestoredRows({name: count for name, count in added_counts.items() if count})


def require_empty(records: Records) -> None:
    """Raise AlreadyExists if a store has rows of any organization."""
    for entity, table in CATALOG.items():
        if table.tenant is not None and (count := records.count(entity, None, deleted=True)):
            raise AlreadyExists(
                f"the store to restore into is not empty ({table.name}: {count:,})",
                remedy=Remedy("restore into an empty store, or pass {} to add what it lacks", Argument("add", True)),
            )


# checking


def _check_rows(records: Records, source: BackupRows, counter: StepCounter) -> int:
    """Check every row and return their number."""
    checks: dict[str, BundleChecks] = {}
    for entity in source.list_entities():
        table = CATALOG[entity]
        for number, row in enumerate(_order_rows(source.read(entity, is_checked=False), table), 1):
            if table.tenant is not None:
                organization = row.__dict__[table.tenant]
                if organization not in checks:
                    checks[organization] = BundleChecks(records, organization)
                _check_row(checks[organization], number, row, table)
            if number % _BATCH == 0:
                counter.add(_BATCH)
    for organization_checks in checks.values():
        try:
            organization_checks.finish()
        except InvalidInput as error:
            raise _make_damage_error(error.fact) from error
    return counter.done


def _check_row(checks: BundleChecks, number: int, row: Row, table: Table) -> None:
    try:
        checks.check(number, row)
    except (InvalidInput, KeyError) as error:
        fact = error.fact if isinstance(error, InvalidInput) else f"line {number}: a row that it belongs to is missing"
        raise _make_damage_error(f"{table.name}, {fact}") from error


def _make_damage_error(fact: str) -> StoreDamaged:
    return StoreDamaged(f"the backup is not one that Everhold wrote: {fact}", remedy="use another backup")


def _order_rows(rows: Iterator[Row], table: Table) -> Iterable[Row]:
    """Return rows in an order in which they can be written: by number, or parents first."""
    if table.generated is not None:
        column = table.generated
        return sorted(rows, key=lambda row: int(row.__dict__[column]))
    return order_parents_first(rows, table)


# writing


def _write_table(records: Records, source: BackupRows, entity: type[Row], mark: MoveMark, counter: StepCounter) -> int:
    """Write the rows of one table that an earlier, interrupted restoration has not written; return their number."""
    table = CATALOG[entity]
    rows = _order_rows(source.read(entity, is_checked=True), table)
    if table.generated is not None:
        rows = (row for row in rows if row.__dict__[str(table.generated)] > mark.last_sequence)
    else:
        existing_keys = (
            {get_key(row) for row in records.scan(entity, None, deleted=True)} if _has_rows(records, entity) else ()
        )
        rows = (row for row in rows if get_key(row) not in existing_keys)
    iterator, written_count = iter(rows), 0
    while batch := list(islice(iterator, _BATCH)):
        operations: list[Operation] = [Put(row) for row in batch]
        if table.generated is not None:
            last = batch[-1].__dict__[table.generated]
            operations.append(Patch(MoveMark, (table.name,), {"last_sequence": last}))
        records.commit(operations)
        written_count += len(batch)
        counter.add(len(batch))
    records.commit([Patch(MoveMark, (table.name,), {"is_complete": True})])
    return written_count


def _has_rows(records: Records, entity: type[Row]) -> bool:
    return records.count(entity, None, deleted=True) > 0


# adding to a store in use


def _add_missing(records: Records, source: BackupRows, report: ReportProgress) -> RestoredRows:
    """Add the rows that the store lacks, as an import does, except the access log and internal tables."""
    entities = [entity for entity in source.list_entities() if _can_be_added(entity)]
    total = _check_rows(records, _SelectedTables(source, entities), StepCounter(report, "checking"))
    _refuse_collisions(records, source, entities)
    comparisons: dict[str, Comparison] = {}
    counter = StepCounter(report, "restoring", total)
    added_counts: Counter[str] = Counter()
    existing_count = 0
    for entity in entities:
        for organization, batch in _read_batches(source, entity):
            comparison = comparisons.setdefault(organization, Comparison(records, organization))
            verdicts = comparison.judge(list(enumerate(batch)))
            missing_rows = [row for row, verdict in zip(batch, verdicts, strict=True) if verdict is RowVerdict.ADD]
            if missing_rows:
                records.commit([operation for row in missing_rows for operation in make_additions(row)])
            added_counts[CATALOG[entity].name] += len(missing_rows)
            existing_count += len(batch) - len(missing_rows)
            counter.add(len(batch))
    return RestoredRows({name: count for name, count in added_counts.items() if count}, existing_count)


def _can_be_added(entity: type[Row]) -> bool:
    table = CATALOG[entity]
    return table.tenant is not None and not table.internal and entity is not AccessLog


def _refuse_collisions(records: Records, source: BackupRows, entities: list[type[Row]]) -> None:
    comparisons: dict[str, Comparison] = {}
    for entity in entities:
        for organization, batch in _read_batches(source, entity):
            comparison = comparisons.setdefault(organization, Comparison(records, organization))
            for row, verdict in zip(batch, comparison.judge(list(enumerate(batch))), strict=True):
                if verdict is RowVerdict.COLLIDE:
                    raise AlreadyExists(
                        f"the store has something else under the id of {comparison.describe(row)}",
                        value=organization,
                        remedy="restore into an empty store",
                    )


def _read_batches(source: BackupRows, entity: type[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows in batches, each of one organization."""
    table = CATALOG[entity]
    rows = iter(_order_rows(source.read(entity, is_checked=True), table))
    while batch := list(islice(rows, _BATCH)):
        for organization, group in groupby(batch, key=lambda row: str(row.__dict__[str(table.tenant)])):
            yield organization, list(group)


class _SelectedTables:
    """A backup limited to some of its tables."""

    def __init__(self, source: BackupRows, entities: list[type[Row]]) -> None:
        self.identity, self._source, self._entities = source.identity, source, entities

    def list_entities(self) -> list[type[Row]]:
        return self._entities

    def read(self, entity: type[Row], *, is_checked: bool) -> Iterator[Row]:
        return self._source.read(entity, is_checked=is_checked)
