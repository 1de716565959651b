"""The engine's verbs on backups."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import everhold
from everhold import settings
from everhold.arguments.checks import Identifier, PathText
from everhold.arguments.verbs import check_verbs
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.progress import ReportProgress, ignore_progress
from everhold.settings_fields import SettingsFields

if TYPE_CHECKING:
    from everhold.parts import Parts

# The verbs import the modules that they need, because most processes make no backups.


@check_verbs
class BackupVerbs:
    """Back up, restore and verify a store."""

    _parts: "Parts"

    def backup(
        self,
        target: PathText | Path,
        *,
        keep_last: int | None = None,
        keep_days: int | None = None,
        keep_weeks: int | None = None,
        keep_months: int | None = None,
        replace_state: bool = False,
        progress: ReportProgress | None = None,
    ) -> "everhold.BackupResult":
        """Store a backup of the whole store in a folder or at an fsspec address. Others can write meanwhile.

        Only changes since the latest backup at the target are stored. `keep_last` is the number of latest backups to
        keep; `keep_days`, `keep_weeks` and `keep_months` keep the latest backup of each of that many days, weeks and
        months. Without these numbers, all backups are kept. `progress` is called with the step "storing rows".

        The target's file `state` has the wrapped keys and the list of erased users. If it is damaged, the backup raises
        StoreDamaged; with `replace_state`, it writes the file again from the store.

        Raise InvalidInput if the target has backups of another store, StoreBusy while another backup of this store
        runs, StoreFull or StoreUnavailable if the target cannot be written. Errors never damage earlier backups.
        """
        from everhold.backups.pipeline import back_up
        from everhold.backups.retention import KeepRule
        from everhold.views.backup_deps import make_deps, open_place

        rule = KeepRule(keep_last, keep_days, keep_weeks, keep_months)
        self._parts.access.flush()
        deps, place, report = make_deps(self._parts), open_place(target), progress or ignore_progress
        return back_up(deps, place, rule, report, replace_state=replace_state)

    def forget_backups(self, target: PathText | Path) -> None:
        """Forget a target whose backups are gone: erasures no longer try to reach it. Nothing there is deleted.

        Raise NotFound if the store does not know the target.
        """
        from everhold.backups.pipeline import forget_target
        from everhold.views.backup_deps import open_place

        forget_target(self._parts.records, open_place(target))

    @staticmethod
    def list_backups(target: PathText | Path) -> "Sequence[everhold.BackupSummary]":
        """Return the backups at a target, oldest first. A backup that cannot be read is listed with its problem."""
        from everhold.backups.listing import list_backups
        from everhold.views.backup_deps import open_history

        return list_backups(open_history(target))

    @staticmethod
    def restore_backup(
        target: PathText | Path,
        into: PathText | Path | None = None,
        *,
        backup: Identifier | None = None,
        as_of: datetime | None = None,
        organization: Identifier | None = None,
        user: Identifier | None = None,
        add: bool = False,
        progress: ReportProgress | None = None,
        **fields: Unpack[SettingsFields],
    ) -> "everhold.Restored":
        """Restore a backup into an empty store of any kind, and return what was restored.

        `into` is a path, a URL or a YAML file of settings, as for `Everhold.open`. Without `backup` or `as_of`, the
        latest backup is restored. `as_of` restores the latest backup up to that time, and then the changes up to that
        time that the next backup shows. `organization` and `user` restore a part; a user belongs to the default
        organization unless `organization` is passed. With `add`, the store need not be empty: rows that it lacks are
        added, and existing rows are not changed. Data of users who were erased since the backup is not restored. Other
        keyword arguments are settings. An interrupted restore continues when it is called again. `progress` is called
        with the steps "checking", "restoring" and "restoring files".

        Raise AlreadyExists if the store is not empty, NotFound if there is no such backup, StoreDamaged if the backup
        was changed or was not written by Everhold. In these cases nothing is written.
        """
        from everhold.views.restoring import RestoreRequest, restore

        if user is not None and organization is None:
            organization = DEFAULT_ORGANIZATION
        request = RestoreRequest(backup, as_of, organization, user, add)
        return restore(target, settings.load(into, **fields), request, progress or ignore_progress)

    @staticmethod
    def verify_backup(
        target: PathText | Path,
        backup: Identifier | None = None,
        *,
        store: PathText | Path | None = None,
        progress: ReportProgress | None = None,
        **fields: Unpack[SettingsFields],
    ) -> "everhold.BackupVerification":
        """Check a backup, by default the latest one, and return what was found.

        Every file is read, and the rows are restored into a temporary store and compared with the backup. The settings
        of `store`, or other keyword arguments, name the master key of an encrypted backup. `progress` is called with
        the steps "reading", "checking" and "restoring".
        """
        from everhold.views.restoring import verify_backup

        return verify_backup(target, backup, settings.load(store, **fields), progress or ignore_progress)
