"""Import a bundle: every row is checked and compared with the store before the first one is written.

    read → check the rows against each other → compare with the store → write what is missing

A bundle is not trusted. It is read twice: the first pass writes nothing and refuses the whole bundle if one row is
invalid; the second pass adds the missing rows.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

from everhold.errors import AlreadyExists
from everhold.exchange.bundle import Header, read_row_count, read_rows
from everhold.exchange.checking import BundleChecks
from everhold.exchange.comparing import Comparison, RowVerdict
from everhold.import_results import ImportResult
from everhold.model import Chunk, Memory, Outbox
from everhold.model.announcement import is_announced, make_announcement
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.ports.time_partitions import find_month
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.schema.catalog import OWNER_TABLES
from everhold.schema.operations import Ensure, Operation, Put

_BATCH = 500  # rows in one commit
_MAX_SHOWN = 3  # collisions that an error message names

NumberedRow = tuple[int, Row]


def import_bundle(
    records: Records,
    path: Path,
    header: Header,
    organization: str,
    report: ReportProgress = ignore_progress,
    prepare: Callable[[Collection[datetime]], None] = lambda months: None,
) -> ImportResult:
    """Add the rows of a bundle that `organization` does not have yet.

    `prepare` is called before the first write, with the months of the bundle's memories.

    Raise InvalidInput for a bundle that an export never writes, and AlreadyExists if the organization has another
    entity with the id of one of the bundle's rows. In both cases nothing is written.
    """
    checking = StepCounter(report, "checking", read_row_count(path))
    months: set[datetime] = set()
    empty_tables = _check_bundle(records, path, header, organization, checking, months)
    prepare(months)
    importing = StepCounter(report, "importing", checking.done)
    counts: Counter[RowVerdict] = Counter()
    log_lines = 0
    comparison = Comparison(records, organization, empty_tables)
    for batch in _read_batches(path, header, organization):
        rows = [(number, row) for number, row in batch if row is not None]
        verdicts = comparison.judge(rows)
        missing_rows = [row for (_, row), verdict in zip(rows, verdicts, strict=True) if verdict is RowVerdict.ADD]
        _add(records, missing_rows, f"lines {batch[0][0]} to {batch[-1][0]}")
        counts.update(verdicts)
        log_lines += len(batch) - len(rows)
        importing.add(len(batch))
    return ImportResult(counts[RowVerdict.ADD], counts[RowVerdict.EXISTING], counts[RowVerdict.SKIP], log_lines)


def _check_bundle(
    records: Records, path: Path, header: Header, organization: str, counter: StepCounter, months: set[datetime]
) -> frozenset[str]:
    """Check a bundle, and return the tables in which the organization has no rows.

    The months of its memories are added to `months`. Raise InvalidInput or AlreadyExists as `import_bundle` does.
    """
    comparison = Comparison(records, organization)
    checks = BundleChecks(records, organization)
    collisions: list[str] = []
    collision_count = 0
    for batch in _read_batches(path, header, organization):
        rows = [(number, row) for number, row in batch if row is not None]
        for number, row in rows:
            checks.check(number, row)
            if isinstance(row, Memory):
                months.add(find_month(row.created_at))
        for (number, row), verdict in zip(rows, comparison.judge(rows), strict=True):
            if verdict is RowVerdict.COLLIDE:
                collision_count += 1
                if len(collisions) < _MAX_SHOWN:
                    collisions.append(f"line {number}, {comparison.describe(row)}")
        counter.add(len(batch))
    checks.finish()
    if collision_count:
        suffix = f", and {collision_count - len(collisions)} more" if collision_count > len(collisions) else ""
        noun = "row" if collision_count == 1 else "rows"
        raise AlreadyExists(
            f"{collision_count} {noun} of the bundle have the id of something else in organization "
            f"{organization!r}: {', and '.join(collisions)}{suffix}",
            value=organization,
            remedy="import into an organization of its own",
        )
    return comparison.empty_tables


def _read_batches(path: Path, header: Header, organization: str) -> Iterator[list[tuple[int, Row | None]]]:
    rows = read_rows(path, header, organization)
    while batch := list(islice(rows, _BATCH)):
        yield batch


def _add(records: Records, rows: Sequence[Row], lines: str) -> None:
    if not rows:
        return
    try:
        records.commit([operation for row in rows for operation in make_additions(row)])
    except AlreadyExists as error:
        # `_check_bundle` compares only keys: a unique value may exist, or another process may have written meanwhile.
        raise AlreadyExists(
            f"{lines} were not imported: {error}",
            remedy="forget what is there, or import into an organization of its own",
            table=error.table,
            rule=error.rule,
        ) from error


def make_additions(row: Row) -> list[Operation]:
    """Return the operations that add a row and announce it; a chunk makes its owner searchable."""
    if isinstance(row, Chunk):
        announcement = Outbox(
            organization_id=row.organization_id,
            user_id=row.user_id,
            entity=OWNER_TABLES[row.owner_kind],
            entity_id=row.owner_id,
            operation="reindex",
        )
        return [Ensure(row), Put(announcement)]
    return [Ensure(row), Put(make_announcement(row))] if is_announced(row) else [Ensure(row)]
