"""Create, find, list, delete and restore workspaces."""

import hashlib
import json
from collections.abc import Mapping

from everhold import clock
from everhold.errors import AlreadyExists, BrokenReference, NotFound, Remedy, Verb
from everhold.model import Cycle, Scope, Workspace
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.retries import RetryPolicy, retry
from everhold.schema.operations import Op, Put, Where
from everhold.workspaces.deps import WorkspaceDeps, make_limits_metadata

_OWNER_COLUMNS = ("user_id", "project_id", "agent_id")
# A row of the scope that another process has deleted is created again at the second attempt.
_RETRIES = RetryPolicy(attempts=3)


def open_workspace(
    deps: WorkspaceDeps, scope: Scope, name: str, limits: Mapping[str, int | None], *, create: bool
) -> Workspace:
    """Return the scope's workspace with this name or id; if there is none, create it or raise NotFound."""
    stored = find_workspace(deps, scope, name, deleted=True)
    if stored is not None and stored.is_deleted:
        raise NotFound(f"workspace {name!r} has been deleted", value=name, remedy="restore it or use another name")
    if stored is not None:
        return stored
    if not create:
        raise make_workspace_not_found(name)
    return retry(
        "create a workspace",
        lambda _: _create(deps, scope, name, limits),
        _RETRIES,
        on=BrokenReference,
        before_retry=deps.scope_rows.invalidate,
    )


def _create(deps: WorkspaceDeps, scope: Scope, name: str, limits: Mapping[str, int | None]) -> Workspace:
    """Create a workspace and return it. If another process creates it at the same time, return that workspace."""
    now, sessionless_scope = clock.now(), drop_session(scope)
    values = {
        "id": _make_workspace_id(scope, name),
        "organization_id": scope.organization,
        "created_at": now,
        "updated_at": now,
        "created_by_id": scope.actor,
        "name": name,
        "metadata": make_limits_metadata(limits),
        **{column: value for column, value in scope.columns.items() if column in _OWNER_COLUMNS},
    }
    workspace = validate_row(Workspace, {**values, "root": ""})
    workspace = workspace.evolve(root=str(deps.find_folder(workspace).files))
    line = make_access_line(scope, "create", now, {"workspace": workspace.id}, interface=deps.interface)
    rows = deps.scope_rows.make_missing_rows(sessionless_scope, now)
    try:
        deps.records.commit([*rows, Put(workspace), Put(line), Put(make_announcement(workspace))])
    except AlreadyExists:  # another process was faster
        return open_workspace(deps, scope, name, {}, create=False)
    deps.scope_rows.confirm(sessionless_scope)
    return workspace


def find_workspace(deps: WorkspaceDeps, scope: Scope, name: str, *, deleted: bool = False) -> Workspace | None:
    """Return the scope's workspace with this name, or the workspace with this id if the scope may read it."""
    id_by_name = _make_workspace_id(scope, name)
    rows = deps.records.get(Workspace, scope.organization, [id_by_name, name], deleted=deleted)
    row = rows.get(id_by_name) or rows.get(name)
    return row if row is not None and can_use(scope, row) else None


def require_workspace(deps: WorkspaceDeps, scope: Scope, name: str, *, deleted: bool = False) -> Workspace:
    row = find_workspace(deps, scope, name, deleted=deleted)
    if row is None:
        raise make_workspace_not_found(name)
    return row


def list_workspaces(deps: WorkspaceDeps, scope: Scope, *, limit: int) -> list[Workspace]:
    """Return the workspaces that a scope may use, newest first."""
    where = [Where(column, Op.EQ, value) for column, value in scope.columns.items() if column in _OWNER_COLUMNS]
    return deps.records.scan(Workspace, scope.organization, where, order="created_at", descending=True, limit=limit)


def can_use(scope: Scope, workspace: Workspace) -> bool:
    """Return whether a workspace matches every dimension of a scope but the session: workspaces have none."""
    return drop_session(scope).can_read(workspace)


def drop_session(scope: Scope) -> Scope:
    return Scope.model_validate({**scope.__dict__, "session": None, "is_confined": False})


def require_cycle(deps: WorkspaceDeps, scope: Scope, cycle_id: str | None) -> None:
    """Raise NotFound if there is no such cycle, or if it belongs to another agent than the scope's."""
    if cycle_id is None:
        return
    cycle = deps.records.get(Cycle, scope.organization, [cycle_id]).get(cycle_id)
    if cycle is None or (scope.agent is not None and cycle.agent_id != scope.agent):
        raise NotFound(f"no cycle {cycle_id!r} in this scope", value=cycle_id, remedy="pass the id of a cycle of a run")


def make_workspace_not_found(name: str) -> NotFound:
    return NotFound(
        f"no workspace {name!r} in this scope", value=name, remedy=Remedy("{} lists them", Verb("workspaces"))
    )


def _make_workspace_id(scope: Scope, name: str) -> str:
    """Derive a workspace's id from its scope and name, so that two processes cannot create it twice."""
    key = json.dumps([scope.user, scope.project, scope.agent, name])
    return f"wsp_{hashlib.sha256(key.encode()).hexdigest()[:26]}"
