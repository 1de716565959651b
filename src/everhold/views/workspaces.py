"""The verbs on workspaces."""

from functools import partial

from everhold.arguments.checks import FileLimit, Identifier, ListLength
from everhold.arguments.verbs import check_verbs, log_as
from everhold.model import Workspace
from everhold.sessions.deletion import require_own_deletion
from everhold.tenancy import deletion
from everhold.tenancy.deletion import Deleted
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView
from everhold.views.deletion import remove_workspace_files
from everhold.views.workspace_folder import AsyncWorkspaceFolder, WorkspaceFolder

_KIND = "workspace"


@check_verbs
class WorkspaceVerbs(ScopedView):
    """The verbs that open, list and delete the scope's workspaces."""

    @log_as("read")
    def workspace(
        self,
        name: Identifier,
        *,
        create: bool = True,
        max_bytes: FileLimit | None = None,
        max_file_bytes: FileLimit | None = None,
        max_files: FileLimit | None = None,
    ) -> WorkspaceFolder:
        """Open the scope's workspace with this name or id; create it if there is none and `create` is true.

        Names of workspaces are unique for each combination of user, project and agent that a scope names. The limits
        apply to a new workspace and cannot exceed the settings.
        """
        from everhold.workspaces.lifecycle import open_workspace

        limits = {"max_bytes": max_bytes, "max_file_bytes": max_file_bytes, "max_files": max_files}
        row = open_workspace(self._parts.workspace_deps, self.scope, name, limits, create=create)
        self._log_call("read", {"workspace": row.id})
        return WorkspaceFolder(self._parts, self.scope, row)

    @log_as("read")
    def workspaces(self, *, limit: ListLength = 50) -> list[Workspace]:
        """Return the workspaces that the scope may use, newest first."""
        from everhold.workspaces.lifecycle import list_workspaces

        rows = list_workspaces(self._parts.workspace_deps, self.scope, limit=limit)
        self._log_call("read", {"workspaces": len(rows)})
        return rows

    @log_as("delete")
    def delete_workspace(self, name: Identifier, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide a workspace with its files and snapshots until `restore_workspace`.

        With `hard` it is purged, with its folder and the contents that only it uses; with `preview` its rows are only
        counted.
        """
        from everhold.workspaces.lifecycle import make_workspace_not_found, require_workspace

        records = self._parts.records
        row = require_workspace(self._parts.workspace_deps, self.scope, name, deleted=hard)
        if row.is_deleted and not hard:
            raise make_workspace_not_found(name)
        rows = {} if row.is_deleted else deletion.count_rows_under(records, _KIND, row.organization_id, row.id)
        if preview:
            self._log_call("read", {"preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        line = self._make_line("delete", {"workspace": row.id})
        deletion.delete(records, _KIND, row.organization_id, row.id, hard=hard, line=line)
        if hard:
            remove_workspace_files(self._parts, row.organization_id)
        return Deleted(rows)

    @log_as("update")
    def restore_workspace(self, name: Identifier) -> Workspace:
        """Restore a deleted workspace and all rows that its deletion hid."""
        from everhold.workspaces.lifecycle import require_workspace

        deps = self._parts.workspace_deps
        row = require_workspace(deps, self.scope, name, deleted=True)
        require_own_deletion(self._parts.records, row, _KIND)
        line = self._make_line("update", {"workspace": row.id})
        deletion.restore(self._parts.records, _KIND, row.organization_id, row.id, line)
        return require_workspace(deps, self.scope, row.id)


class AsyncWorkspaceVerbs(AsyncFacade):
    """The verbs of `WorkspaceVerbs`, awaited."""

    workspaces = Awaited(WorkspaceVerbs.workspaces)
    delete_workspace = Awaited(WorkspaceVerbs.delete_workspace)
    restore_workspace = Awaited(WorkspaceVerbs.restore_workspace)

    async def workspace(
        self,
        name: str,
        *,
        create: bool = True,
        max_bytes: int | None = None,
        max_file_bytes: int | None = None,
        max_files: int | None = None,
    ) -> AsyncWorkspaceFolder:
        """Open a workspace as `WorkspaceVerbs.workspace` does; the verbs of the result are awaited."""
        open_folder = partial(Awaited(WorkspaceVerbs.workspace).__get__(self, type(self)), name, create=create)
        folder = await open_folder(max_bytes=max_bytes, max_file_bytes=max_file_bytes, max_files=max_files)
        return AsyncWorkspaceFolder(folder, self._pool)
