"""Make the lines of the change feed, which projections and the readers of events follow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from everhold.model.base import Row
from everhold.model.searchable import KIND_OF_TABLE, SEARCHABLE_BY_CLASS_NAME

if TYPE_CHECKING:
    from everhold.model.change_feed import FeedOperation, Outbox

# The tables of entities that are announced but not searched, by the name of the entity's class.
UNSEARCHED: Mapping[str, str] = {
    "Organization": "organizations",
    "User": "users",
    "Project": "projects",
    "Agent": "agents",
    "AgentState": "agent_states",
    "Tool": "tools",
    "Session": "sessions",
    "Conversation": "conversations",
    "Execution": "executions",
    "Workspace": "workspaces",
    "Snapshot": "snapshots",
}
# The name that events use for the entity of each table.
ENTITY_NAMES: Mapping[str, str] = {
    **KIND_OF_TABLE,
    "organizations": "organization",
    "users": "user",
    "projects": "project",
    "agents": "agent",
    "agent_states": "agent_state",
    "tools": "tool",
    "sessions": "session",
    "conversations": "conversation",
    "executions": "run",
    "workspaces": "workspace",
    "snapshots": "snapshot",
    "maintenance_runs": "maintenance_run",
}
# Tables whose rows own no searched records.
_WITHOUT_DESCENDANTS = frozenset(
    ("agent_states", "tools", "executions", "workspaces", "snapshots", "maintenance_runs"),
)
# For an entity that is a dimension of scopes: the column of its line that gets its own id.
_OWN_COLUMNS = {"User": "user_id", "Project": "project_id", "Agent": "agent_id", "Session": "session_id"}


def make_announcement(
    row: Row,
    operation: "FeedOperation" = "put",
    *,
    owner: Row | None = None,
    idempotency_key: str | None = None,
    digest: bytes | None = None,
) -> "Outbox":
    """Return the line of the change feed that announces a change of a row.

    The line has the scope of the row, or of `owner` if the row itself does not name its user. With an idempotency key,
    `digest` is a hash of the values that were written with the key.
    """
    from everhold.model.change_feed import Outbox  # a process that only reads does not need it

    name = type(row).__name__
    searchable = SEARCHABLE_BY_CLASS_NAME.get(name)
    line = _list_scope_columns(row if owner is None else owner)
    line["entity"] = UNSEARCHED[name] if searchable is None else searchable.table
    line["entity_id"] = row.__dict__["id"]
    line["operation"] = operation
    line["idempotency_key"], line["digest"] = idempotency_key, digest
    return Outbox.build_unchecked(line)


def make_run_announcement(run_id: str, organization_id: str) -> "Outbox":
    """Return the line that announces the end of a run of maintenance to an organization whose memories it changed."""
    from everhold.model.change_feed import Outbox  # a process that only reads does not need it

    values = {"organization_id": organization_id, "entity": "maintenance_runs", "entity_id": run_id, "operation": "put"}
    return Outbox.build_unchecked(values)


def _list_scope_columns(row: Row) -> dict[str, object]:
    values, name = row.__dict__, type(row).__name__
    columns: dict[str, object] = {
        "organization_id": values["id"] if name == "Organization" else values["organization_id"],
        "user_id": values.get("user_id") or "",
        "project_id": values.get("project_id"),
        "agent_id": values.get("agent_id"),
        "session_id": values.get("session_id"),
        "namespace": values.get("namespace"),
    }
    if name in _OWN_COLUMNS:
        columns[_OWN_COLUMNS[name]] = values["id"]
    return columns


def is_announced(row: Row) -> bool:
    """Return whether changes of a row are announced in the change feed."""
    name = type(row).__name__
    return name in SEARCHABLE_BY_CLASS_NAME or name in UNSEARCHED


def affects_descendants(line: "Outbox") -> bool:
    """Return whether a line announces that a container, such as a session, was deleted or restored with its
    contents."""
    return line.operation != "put" and line.entity not in KIND_OF_TABLE and line.entity not in _WITHOUT_DESCENDANTS
