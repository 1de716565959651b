"""Rotate keys: wrap data keys with a new master key, and replace data keys by new ones.

    wrap keys again → a new generation of each data key → rewrite rows → clean files

The time when the rotation began is stored. An interrupted rotation continues: keys that were created after that time
are not replaced again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from everhold import clock
from everhold.encryption.deps import Encryption
from everhold.encryption.recorded import mark_incomplete
from everhold.encryption.rewriting import RewritingDeps, rewrite_rows
from everhold.errors import StaleVersion
from everhold.model import Counter, DataKey
from everhold.ports.data_keys import RotatingDataKeys
from everhold.ports.records import Records
from everhold.schema.catalog import get_key
from everhold.schema.operations import Ensure, Op, Page, Patch, Where

_START_COUNTER = "key rotation began"
_BATCH = 500


@dataclass(frozen=True)
class Rotated:
    """The numbers of data keys that were wrapped again and replaced, and of rows that were rewritten or are
    unreadable."""

    wrapped: int
    replaced: int
    rows: int
    unreadable: int
    fingerprint: str


def wrap_keys(records: Records, keys: RotatingDataKeys, count: Callable[[int], None]) -> int:
    """Wrap every data key with the current master key; return how many were wrapped with another key before."""
    wrapped = 0
    for row in list_data_keys(records):
        if row.master_fingerprint == keys.master_fingerprint:
            continue
        rewrapped = keys.wrap_again(row)
        changes = {"wrapped_key": rewrapped.wrapped_key, "master_fingerprint": rewrapped.master_fingerprint}
        try:
            records.commit([Patch(DataKey, get_key(row), {**changes, "updated_at": clock.now()}, version=row.version)])
        except StaleVersion:  # another process has wrapped the key again or destroyed it
            continue
        wrapped += 1
        count(1)
    return wrapped


def replace_keys(encryption: Encryption, keys: RotatingDataKeys, count: Callable[[int], None]) -> int:
    """Create a new generation of each data key that is older than the rotation; return the number of new keys."""
    records = encryption.stored
    start = _begin(records)
    mark_incomplete(records, encryption.recorded_fields)
    newest: dict[tuple[str, str], DataKey] = {}
    for row in list_data_keys(records):
        owner = (row.organization_id, row.subject)
        if row.purpose == "content" and (owner not in newest or newest[owner].generation < row.generation):
            newest[owner] = row
    outdated = [row for row in newest.values() if clock.micros(row.created_at) < start]
    for row in outdated:
        keys.rotate(row.organization_id, row.subject)
        count(1)
    return len(outdated)


def finish_rotation(deps: RewritingDeps) -> int:
    """Rewrite the rows that are encrypted with old keys; return how many could not be read."""
    unreadable = rewrite_rows(deps)
    deps.encryption.stored.commit([Patch(Counter, (_START_COUNTER,), {"value": 0})])
    return unreadable


def is_unfinished(records: Records) -> bool:
    """Return whether a rotation was interrupted."""
    return _read_start(records) > 0


def list_data_keys(records: Records) -> list[DataKey]:
    """Return the data keys of all organizations."""
    rows: list[DataKey] = []
    after: Page | None = None
    while True:
        page = records.scan(DataKey, None, after=after, limit=_BATCH, deleted=True)
        rows += page
        if len(page) < _BATCH:
            return rows
        after = Page(None, get_key(page[-1]))


def _begin(records: Records) -> int:
    """Return the start of the rotation in microseconds. An interrupted rotation keeps its start."""
    start = _read_start(records)
    if not start:
        start = clock.micros(clock.now())
        records.commit([Ensure(Counter(name=_START_COUNTER)), Patch(Counter, (_START_COUNTER,), {"value": start})])
    return start


def _read_start(records: Records) -> int:
    """Return the start of the current rotation; 0 if there is none."""
    rows = records.scan(Counter, None, [Where("name", Op.EQ, _START_COUNTER)], limit=1)
    return rows[0].value if rows else 0
