"""The engine's verbs on backups."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import everhold
from everhold.arguments.checks import PathText
from everhold.arguments.verbs import check_verbs
from everhold.backups.pipeline import BackupResult, back_up
from everhold.backups.retention import KeepRule
from everhold.progress import ReportProgress, ignore_progress
from everhold.views.backup_deps import make_deps, open_place

if TYPE_CHECKING:
    from everhold.parts import Parts


@check_verbs
class BackupVerbs:
    """Back up a store."""

    _parts: "Parts"

    def backup(
        self,
        target: PathText | Path,
        *,
        keep_last: int | None = None,
        keep_days: int | None = None,
        keep_weeks: int | None = None,
        keep_months: int | None = None,
        progress: ReportProgress | None = None,
    ) -> "everhold.BackupResult":
        """Store a backup of the whole store in a folder or at an fsspec address, while others go on writing.

        Only what changed since the latest backup there is stored. The `keep_` numbers say which backups are kept: the
        latest ones, and the latest one of each of the last days, weeks and months. Without any, all are kept.
        `progress` is called with the step "storing rows".

        InvalidInput if the target has backups of another store, StoreBusy while another backup of this store runs,
        StoreFull or StoreUnavailable if the target cannot be written. Earlier backups stay whole in any case.
        """
        rule = KeepRule(keep_last, keep_days, keep_weeks, keep_months)
        self._parts.access.flush()
        return back_up(make_deps(self._parts), open_place(target), rule, progress or ignore_progress)
