"""Rewind single rows to a time between two backups, and decide whether the result is exact."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from everhold.backups.journal import Journal, list_change_steps
from everhold.backups.steps import STAMPS, RowStep, UndoneRow, add_visible_steps, undo_steps
from everhold.model.memory import REPEATABLE_KINDS
from everhold.schema.table import TENANT, Table

_Values = Mapping[str, Any]
# The columns of a memory from which its hash is computed, and those that change when it is read.
_HASHED_COLUMNS = frozenset({"text", "content", "kind", "namespace"})
_READ_COLUMNS = ("access_count", "last_accessed")
# The columns of a session that change when its messages are archived or put back.
_ARCHIVING_COLUMNS = ("archived_messages", "archived_at", "unarchived_at")
HashMemory = Callable[[_Values], bytes | None]


class RowSource(StrEnum):
    """How exact a row is: exact, exact except for its reads, or approximately as in one of the backups."""

    EXACT = "exact"
    READ_LATER = "read_later"
    EARLIER = "earlier"
    LATER = "later"


class ChosenRow(NamedTuple):
    """The values of a row at the time, and how exact they are."""

    values: dict[str, Any]
    source: RowSource


def has_same_content(first: _Values, second: _Values) -> bool:
    """Return whether two rows have the same content. Their versions and times of change are ignored."""
    return all(value == second[name] for name, value in first.items() if name not in STAMPS)


@dataclass
class RowRewinder:
    """Undoes the changes of rows after a time, as far as the later backup shows them."""

    journal: Journal
    at: datetime
    hash_memory: HashMemory
    moved: set[tuple[str, str]] = field(default_factory=set)
    """The sessions whose messages were archived or put back after the time."""

    def choose(self, table: Table, values: dict[str, Any], earlier: dict[str, Any] | None) -> ChosenRow | None:
        """Return a row of the later backup as it was at the time; None if it did not exist."""
        if "created_at" not in values:
            return ChosenRow(values, RowSource.EXACT if earlier == values else RowSource.LATER)
        if table.name == "session_archives" and (values[TENANT], values["session_id"]) in self.moved:
            return ChosenRow(values, RowSource.LATER)
        if _find_addition(values, earlier) > self.at:
            return None if earlier is None else self.choose_missing(table, earlier, until=values["created_at"])
        if table.name == "sessions" and self._was_moved(values, earlier):
            return ChosenRow(values, RowSource.LATER) if earlier is None else ChosenRow(earlier, RowSource.EARLIER)
        if table.name == "memory_tags" and earlier is not None and earlier["created_at"] != values["created_at"]:
            earlier = None  # removed and added again
        return self._rewind(table, values, earlier)

    def _rewind(self, table: Table, values: dict[str, Any], earlier: dict[str, Any] | None) -> ChosenRow:
        steps = add_visible_steps(values, earlier, self._list_steps(table, values, earlier), self.journal.since)
        rewound, unknown = self._undo(table, values, steps, earlier)
        if self._is_exact(table, values, steps, earlier) and not unknown:
            return self._choose_reads(table, rewound, values, earlier)
        is_journalled = table.name in ("memories", "sessions", "blocks")
        if earlier is not None and not is_journalled and any(step.at > self.at for step in steps):
            return ChosenRow(earlier, RowSource.EARLIER)
        return ChosenRow(rewound, RowSource.LATER)

    def choose_missing(self, table: Table, values: dict[str, Any], until: datetime | None = None) -> ChosenRow | None:
        """Return a row that only the earlier backup has; None if it was removed before the time.

        `until` is the time when the row was added again, if it was.
        """
        removals = self._list_removals(table, values)
        removal_times = [at for at in removals if self.journal.since < at and (until is None or at < until)]
        if removal_times and max(removal_times) <= self.at:
            return None
        is_unchanged = table.name == "memory_tags" and not self.journal.was_hidden(*_list_memory_owners(table, values))
        is_exact = bool(removal_times) and min(removal_times) > self.at and is_unchanged
        return ChosenRow(values, RowSource.EXACT if is_exact else RowSource.EARLIER)

    def _list_removals(self, table: Table, values: _Values) -> Sequence[datetime]:
        """Return the times at which a row was purged or removed, as far as the journal shows them."""
        journal, organization = self.journal, values.get(TENANT)
        moments: Sequence[datetime | None] = ()
        if organization is None:
            return ()
        if table.name == "memories":
            moments = [journal.purge_times.get((organization, values["id"]))]
        elif table.name == "changes":  # an entry of the journal is purged with the memories that it names
            moments = [journal.purge_times.get((organization, name)) for name in values["memory_ids"]]
        elif table.name == "memory_tags":
            moments = journal.tag_times.get((organization, values["memory_id"]), ())
        elif table.name == "memory_relationships":
            description = f"{values['source_memory_id']} {values['relationship_type']} {values['target_memory_id']}"
            moments = [journal.unlink_times.get((organization, name)) for name in (values["id"], description)]
        purges = (journal.purge_times.get(memory) for memory in _list_memory_owners(table, values))
        return [moment for moment in (*moments, *purges) if moment is not None]

    def _list_steps(self, table: Table, values: _Values, earlier: _Values | None) -> Sequence[RowStep]:
        match table.name:
            case "memories":
                return self.journal.list_memory_steps(values, earlier)
            case "blocks":
                return self.journal.list_block_steps(values)
            case "sessions":
                return self.journal.list_session_steps(values, earlier)
            case "changes":
                return list_change_steps(values)
        return self.journal.list_deletion_steps(values, *_list_memory_owners(table, values))

    def _was_moved(self, values: _Values, earlier: _Values | None) -> bool:
        """Return whether messages of a session may have been archived, or not yet archived, at the time."""
        move_times = [values[name] for name in _ARCHIVING_COLUMNS[1:] if values[name] is not None]
        is_same = earlier is not None and all(values[name] == earlier[name] for name in _ARCHIVING_COLUMNS)
        if is_same or (not move_times and not values["archived_messages"]):
            return False
        if earlier is None:
            self.moved.add((values[TENANT], values["id"]))
        return True

    def _undo(self, table: Table, values: _Values, steps: Sequence[RowStep], earlier: _Values | None) -> UndoneRow:
        first_update = values["created_at"] if earlier is None else earlier["updated_at"]
        undone = undo_steps(values, steps, self.at, first_update)
        if table.name != "memories" or not any(
            step.at > self.at and step.before.keys() & _HASHED_COLUMNS for step in steps
        ):
            return undone
        return self._restore_hash(values, undone)

    def _restore_hash(self, values: _Values, rewound: UndoneRow) -> UndoneRow:
        """Return a memory with the hash of its text at that time."""
        if values["hash"] is not None and values["hash"] != self.hash_memory(values):
            return rewound._replace(unknown=rewound.unknown | {"hash"})  # encrypted
        if values["hash"] is None and values["kind"] not in REPEATABLE_KINDS:
            return rewound._replace(unknown=rewound.unknown | {"hash"})  # another memory has the text now
        state = rewound.values
        memory_hash = None if state["kind"] in REPEATABLE_KINDS else self.hash_memory(state)
        return rewound._replace(values=state | {"hash": memory_hash})

    def _is_exact(self, table: Table, values: _Values, steps: Sequence[RowStep], earlier: _Values | None) -> bool:
        """Return whether all changes of a row are known, so that undoing them gives the row of the earlier backup."""
        if earlier is not None and any(
            earlier[reference.columns[0]] is not None and values[reference.columns[0]] is None
            for reference in table.references
            if reference.on_delete == "set_null"
        ):
            return False  # a row that this row refers to was purged at an unknown time
        since = self.journal.since
        if earlier is not None:
            origin = undo_steps(values, steps, since, earlier["updated_at"]).values
            if table.name == "memories":
                origin |= {name: earlier[name] for name in (*_READ_COLUMNS, "hash")}
            if origin == earlier:
                return True
        elif _find_addition(values, None) > since:
            # A session that begins with a message is added and changed at the same time.
            before_addition = values["created_at"] - timedelta.resolution
            origin = undo_steps(values, steps, before_addition, values["created_at"]).values
            if origin["version"] == 1 and not origin["is_deleted"] and origin.get("strength", 1.0) == 1.0:
                return True
        # If the last change is known and was before the time, earlier changes do not matter.
        is_settled = not any(step.at > self.at for step in steps)
        has_lost_hash = table.name == "memories" and values["hash"] is None and values["kind"] not in REPEATABLE_KINDS
        is_origin_known = earlier is not None or _find_addition(values, None) > since
        return (
            is_settled
            and is_origin_known
            and not has_lost_hash
            and not self.journal.may_have_restored(str(values.get(TENANT)))
        )

    def _choose_reads(
        self, table: Table, rewound: dict[str, Any], values: _Values, earlier: _Values | None
    ) -> ChosenRow:
        """Return a row with the number and time of its reads up to the time, as far as they are known."""
        if table.name != "memories":
            return ChosenRow(rewound, RowSource.EXACT)
        if earlier is not None and all(earlier[name] == values[name] for name in _READ_COLUMNS):
            return ChosenRow(rewound, RowSource.EXACT)
        if values["last_accessed"] is None or values["last_accessed"] <= self.at:
            return ChosenRow(rewound, RowSource.EXACT)
        reads = (
            {name: earlier[name] for name in _READ_COLUMNS} if earlier else {"access_count": 0, "last_accessed": None}
        )
        return ChosenRow(rewound | reads, RowSource.READ_LATER)


def _find_addition(values: _Values, earlier: _Values | None) -> datetime:
    """Return the time when a row was added. For an unchanged row it is `updated_at`: `created_at` may be imported."""
    is_unchanged = earlier is None and values.get("version") == 1 and values.get("updated_at") is not None
    addition: datetime = max(values["created_at"], values["updated_at"]) if is_unchanged else values["created_at"]
    return addition


def _list_memory_owners(table: Table, values: _Values) -> list[tuple[str, str]]:
    """Return the organization and id of each memory with which a row is deleted and restored."""
    columns = [reference.columns[0] for reference in table.references if reference.target == "memories"]
    return [(values[TENANT], values[column]) for column in columns]
