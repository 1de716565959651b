"""The job that deletes the files of uploads whose process was killed, and of sources that were purged."""

from datetime import datetime, timedelta

from everhold import clock
from everhold.adapters.address import read_scheme
from everhold.maintenance.pipeline import Counts, JobRun
from everhold.model import Secret
from everhold.parts import Parts

# Younger files may belong to an upload that is still running. No upload takes a day with any limits.
_MIN_AGE = timedelta(days=1)


def _has_files(parts: Parts) -> bool:
    """Return whether uploads may have left files.

    The name of their folder is derived from the store's secret, so a store without one has none. The files of a store
    in memory are deleted with it.
    """
    return read_scheme(parts.settings.storage) != "memory" and bool(parts.records.count(Secret, None))


def _compute_cutoff() -> datetime:
    return clock.now() - _MIN_AGE


def count_leftovers(parts: Parts) -> Counts:
    from everhold.views.data_deps import list_old_folders, make_source_files

    counts = {"folders": len(list_old_folders(_compute_cutoff()))}
    if _has_files(parts):
        files = make_source_files(parts.settings, parts.records)
        counts["files"] = files.sweep(parts.records, _compute_cutoff(), dry_run=True)
    return {name: count for name, count in counts.items() if count}


def delete_leftovers(parts: Parts, run: JobRun) -> None:
    from everhold.views.data_deps import delete_folder, list_old_folders, make_source_files

    for folder in list_old_folders(_compute_cutoff()):
        delete_folder(folder)
        run.add("folders")
    if _has_files(parts):
        files = make_source_files(parts.settings, parts.records)
        run.add("files", files.sweep(parts.records, _compute_cutoff()))
