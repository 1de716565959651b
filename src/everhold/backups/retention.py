"""Delete the backups that a rule does not keep, and the objects that no backup needs."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime

from everhold.backups.history import History, StoredManifest
from everhold.backups.objects import list_objects, name_object
from everhold.errors import InvalidInput


@dataclass(frozen=True)
class KeepRule:
    """The numbers of backups to keep: the latest ones, and the latest one of each of the last days, weeks and months.

    A backup is kept if one of the numbers selects it. Without any number, all are kept. The latest is always kept.
    """

    last: int | None = None
    days: int | None = None
    weeks: int | None = None
    months: int | None = None

    def __post_init__(self) -> None:
        for name in ("last", "days", "weeks", "months"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InvalidInput(f"keep_{name} is {number}", value=number, remedy="pass 1 or more, or leave it out")

    @property
    def keeps_all(self) -> bool:
        return self.last is self.days is self.weeks is self.months is None

    def select(self, moments: Sequence[tuple[str, datetime]]) -> set[str]:
        """Return the ids of the backups to keep. `moments` has all ids with their times, oldest first."""
        if self.keeps_all:
            return {backup_id for backup_id, _ in moments}
        kept_ids = {backup_id for backup_id, _ in moments[-(self.last or 1) :]}
        for unit, find_period in _PERIODS.items():
            latest_by_period = {find_period(at): backup_id for backup_id, at in moments}
            number = getattr(self, unit)
            kept_ids.update([*latest_by_period.values()][-number:] if number else ())
        return kept_ids


_PERIODS: dict[str, Callable[[datetime], Hashable]] = {
    "days": lambda at: at.date(),
    "weeks": lambda at: at.isocalendar()[:2],
    "months": lambda at: (at.year, at.month),
}


def prune(history: History, rule: KeepRule, known: Sequence[StoredManifest] = ()) -> list[str]:
    """Delete the backups that the rule does not keep, and the objects that no backup needs; return the ids deleted.

    An unreadable backup is kept. Then all objects are kept too, because it may need any of them. Manifests that are
    `known` are not read again.
    """
    stored = history.read_all(known)
    readable = [(entry.backup_id, entry.manifest.at) for entry in stored if entry.manifest is not None]
    kept_ids = rule.select(readable)
    removed_ids = [backup_id for backup_id, _ in readable if backup_id not in kept_ids]
    for backup_id in removed_ids:
        # Manifests are deleted first, because a backup without its objects must not be listed.
        history.delete(backup_id)
    if len(readable) == len(stored):
        sweep(history, [entry for entry in stored if entry.backup_id in kept_ids])
    return removed_ids


def sweep(history: History, kept_backups: Sequence[StoredManifest]) -> int:
    """Delete the objects that none of these backups needs, and return their number.

    Such objects come from deleted or interrupted backups, or are the indexes of earlier backups.
    """
    needed: set[str] = set()
    for entry in kept_backups:
        if entry.manifest is not None:
            needed.update(entry.manifest.list_objects(with_indexes=entry is kept_backups[-1]))
    deleted = 0
    for address in list_objects(history.place):
        if address not in needed:
            history.place.delete(name_object(address))
            deleted += 1
    return deleted
