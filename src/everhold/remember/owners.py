"""Find owners, whose memories are consolidated together: a user, or an organization for its memories without a user."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from everhold.batches import split_into_batches
from everhold.model import Change, Counter, Episode, Memory, Relationship, Scope
from everhold.model.base import Row
from everhold.ports.feed_start import read_trimmed
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Operation, Patch, Where

_BATCH = 500
_PAGE = 1000
# The name of the counter that has the number of the last line of the feed up to which all owners are consolidated.
_COUNTER_NAME = "consolidated lines"
_TABLES = frozenset(("memories", "episodes"))


class Owner(NamedTuple):
    """A user of an organization, or the organization itself."""

    organization: str
    user_id: str | None

    @property
    def scope(self) -> Scope:
        return Scope(organization=self.organization, user=self.user_id)

    @property
    def conditions(self) -> list[Where]:
        """The conditions that the owner's rows meet."""
        return [Where("user_id", Op.EQ, self.user_id)]


class ChangedOwners(NamedTuple):
    """The owners whose memories or episodes have changed, and the number of the last line of the feed that was read."""

    owners: list[Owner]
    last_line: int


def find_changed_owners(records: Records) -> ChangedOwners:
    """Return the owners with changes after the line that `note_consolidated` stored.

    Return all owners if no line was stored, or if the feed no longer has the lines after it.
    """
    # Changes are found by the feed and not by `updated_at`: imported rows have the times of their original store.
    number = start = _read_mark(records)
    owners: set[Owner] = set()
    while lines := (page := records.read_settled(number, limit=_PAGE)).lines:
        owners |= {Owner(line.organization_id, line.user_id or None) for line in lines if line.entity in _TABLES}
        number = lines[-1].sequence
    if start == 0 or start < read_trimmed(records) or start > page.last:
        owners = find_writers(records, None)
    return ChangedOwners(sorted(owners, key=lambda owner: (owner.organization, owner.user_id or "")), number)


def note_consolidated(last_line: int) -> list[Operation]:
    """Return the operations that store the number of the feed line up to which all owners are consolidated."""
    return [Ensure(Counter(name=_COUNTER_NAME)), Patch(Counter, (_COUNTER_NAME,), {"value": last_line})]


def _read_mark(records: Records) -> int:
    rows = records.scan(Counter, None, [Where("name", Op.EQ, _COUNTER_NAME)], limit=1)
    return rows[0].value if rows else 0


def find_writers(records: Records, since: datetime | None) -> set[Owner]:
    """Return the owners of the memories and episodes changed since a time, or of all of them if it is None."""
    where = [Where("updated_at", Op.GE, since)] if since is not None else []
    columns = ("organization_id", "user_id")
    entities: tuple[type[Row], ...] = (Memory, Episode)
    return {Owner(*row) for entity in entities for row in records.columns(entity, None, columns, where)}


def find_undone_pairs(records: Records, owner: Owner, kind: str) -> set[frozenset[str]]:
    """Return the pairs of memories that a change of this kind by maintenance affected, if the change was undone."""
    where = [
        *owner.conditions,
        Where("kind", Op.EQ, kind),
        Where("run_id", Op.NE, None),
        Where("undone_at", Op.NE, None),
    ]
    changes = records.columns(Change, owner.organization, ("memory_ids",), where)
    return {pair for (memory_ids,) in changes for pair in _list_pairs(memory_ids)}


def find_related_pairs(records: Records, organization: str, memory_ids: Iterable[str]) -> set[frozenset[str]]:
    """Return the pairs of these memories and others that have a relationship of any type."""
    columns = ("source_memory_id", "target_memory_id")
    return {
        frozenset(ends)
        for batch in split_into_batches(sorted(memory_ids), _BATCH)
        for ends in records.columns(Relationship, organization, columns, [Where(columns[0], Op.IN, list(batch))])
    }


def _list_pairs(memory_ids: list[str]) -> Iterator[frozenset[str]]:
    for index, first in enumerate(memory_ids):
        for second in memory_ids[index + 1 :]:
            yield frozenset((first, second))
