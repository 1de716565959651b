"""The port through which the erasure of a user also reaches the places with backups."""

from collections.abc import Sequence
from typing import Protocol

from everhold.values import Value, value_class


@value_class
class TargetErasure(Value):
    """The outcome of the erasure of a user at one backup target.

    `target` is its address without credentials. `status` is "erased" if nothing of the user can be read there any more,
    else "unreached", and `problem` says why. `rewritten` is the number of files that were written again or deleted.
    """

    target: str
    status: str
    rewritten: int = 0
    problem: str = ""


class BackupTargets(Protocol):
    """The backup targets that a store knows."""

    def erase_user(self, organization_id: str, user_id: str, key_ids: Sequence[str]) -> list[TargetErasure]:
        """Remove a user from every known target, and return a report per target.

        Of encrypted backups, only the keys with these ids are removed from the target's keys. Backups that are not
        encrypted are written again without the user's rows. A target that cannot be reached is reported and raises
        nothing.
        """
        ...


class NoBackupTargets:
    """The targets of a store that has never been backed up."""

    def erase_user(self, organization_id: str, user_id: str, key_ids: Sequence[str]) -> list[TargetErasure]:
        return []
