"""The job that deletes contents of workspaces that nothing names, and folders of purged workspaces."""

from functools import partial

from everhold.blob_places import find_workspaces_folder
from everhold.maintenance.pipeline import Counts, JobRun
from everhold.model import Blob, Organization, Secret
from everhold.parts import Parts


def _is_used(parts: Parts) -> bool:
    """Return whether the store has contents of workspaces, or may have had some that have been purged.

    The names of the store's folders are derived from its secret, so a store without one has none.
    """
    if parts.records.count(Blob, None):
        return True
    return bool(parts.records.count(Secret, None)) and find_workspaces_folder(parts.settings).is_dir()


def _list_organizations(parts: Parts) -> list[str]:
    return [name for (name,) in parts.records.columns(Organization, None, ("id",), deleted=True)]


def count_garbage(parts: Parts) -> Counts:
    from everhold.workspaces.garbage import find_garbage

    if not parts.records.count(Blob, None):
        return {}
    deps = parts.workspace_deps
    return {"contents": sum(len(find_garbage(deps, organization)) for organization in _list_organizations(parts))}


def collect_garbage(parts: Parts, run: JobRun) -> None:
    from everhold.workspaces import garbage

    if not _is_used(parts):
        return
    deps = parts.workspace_deps
    run.add("folders", garbage.remove_purged(deps))
    for organization in _list_organizations(parts):
        garbage.collect_garbage(deps, organization, partial(run.add, "contents"))
        run.check_time()
