"""Erase a user from the backups of a store."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everhold.errors import EverholdError, StoreBusy
from everhold.settings_sections import hide_password

if TYPE_CHECKING:
    from everhold.backups.deps import BackupDeps
    from everhold.model import BackupTarget
    from everhold.parts import Parts
    from everhold.ports.backup_targets import TargetErasure

_BUSY = "a backup is running; erase the user again when it has ended"


class KnownTargets:
    """The folders and addresses where the store has made backups."""

    def __init__(self, parts: "Parts") -> None:
        self._parts = parts

    def erase_user(self, organization_id: str, user_id: str, key_ids: Sequence[str]) -> "list[TargetErasure]":
        from everhold.model import BackupTarget  # few processes erase
        from everhold.ports.backup_targets import TargetErasure

        targets = self._parts.records.scan(BackupTarget, None)
        if not targets:
            return []
        from everhold.backups.leases import hold_backup_lease
        from everhold.views.backup_deps import make_deps

        deps = make_deps(self._parts)
        try:
            with hold_backup_lease(deps.records):
                return [_erase(deps, target, organization_id, user_id, key_ids) for target in targets]
        except StoreBusy:
            return [TargetErasure(hide_password(target.address), "unreached", 0, _BUSY) for target in targets]


def _erase(
    deps: "BackupDeps", target: "BackupTarget", organization_id: str, user_id: str, key_ids: Sequence[str]
) -> "TargetErasure":
    """Erase a user from the backups at one target, and return the outcome."""
    from everhold.backups.erasing import erase_from
    from everhold.ports.backup_targets import TargetErasure
    from everhold.views.backup_deps import open_place

    address = hide_password(target.address)
    try:
        history = deps.open_history(open_place(target.address))
        if not history.list_ids():
            return TargetErasure(address, "unreached", 0, "no backups are there; the folder may have been moved")
        rewritten_count = erase_from(deps, history, organization_id, user_id, key_ids)
    except EverholdError as error:
        return TargetErasure(address, "unreached", 0, str(error))
    return TargetErasure(address, "erased", rewritten_count)
