"""Create, find, list and change the tools of an organization, and attach them to agents."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from everhold import clock
from everhold.errors import (
    AlreadyExists,
    Argument,
    Conflict,
    InvalidInput,
    NotFound,
    Remedy,
    StaleVersion,
    StoreBusy,
    format_value,
)
from everhold.model import Organization, Scope, Tool, ToolAgent
from everhold.model.access import LoggedOperation, make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.fields import is_id
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import get_table
from everhold.schema.operations import Delete, Op, Operation, Page, Patch, Put, Where
from everhold.tools.checking import check_defaults
from everhold.tools.definitions import ToolList, check_name

_NAME_LENGTH = 255


class RowsOfScope(Protocol):
    """Makes the rows that a scope names and that do not exist yet."""

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]: ...

    def confirm(self, scope: Scope) -> None: ...


@dataclass(frozen=True)
class ToolDeps:
    """The dependencies of the verbs on tools. `text_bytes` is the maximum size of a description or a source."""

    records: Records
    scope_rows: RowsOfScope
    text_bytes: int
    interface: str


# reading


def require_tool(records: Records, scope: Scope, name: str, *, deleted: bool = False) -> Tool:
    """Return the tool with this id or name; a tool of the scope's agent comes before others of the same name.

    With `deleted`, a deleted tool is found too, if no live one has the id or name. Raise NotFound if there is none, and
    Conflict if several have the name.
    """
    tool = records.get(Tool, scope.organization, [name], deleted=deleted).get(name) if is_id(name) else None
    if tool is not None:
        return tool
    matches = _find_by_name(records, scope, name, deleted=False) or (
        _find_by_name(records, scope, name, deleted=True) if deleted else []
    )
    if not matches:
        raise NotFound(
            f"no tool {name!r} in organization {scope.organization!r}",
            value=name,
            remedy="check its name, or create it",
        )
    if len(matches) > 1:
        ids = ", ".join(sorted(match.id for match in matches)[:5])
        raise Conflict(f"{len(matches)} tools are named {name!r}", value=name, remedy=f"use an id: {ids}")
    return matches[0]


def _find_by_name(records: Records, scope: Scope, name: str, *, deleted: bool) -> list[Tool]:
    if len(name) > _NAME_LENGTH:
        return []
    where = [Where("name", Op.EQ, name), *([Where("is_deleted", Op.EQ, True)] if deleted else [])]
    matches = records.scan(Tool, scope.organization, where, limit=100, deleted=deleted)
    if len(matches) > 1 and scope.agent is not None:
        own_ids = set(_list_tool_ids(records, scope.organization, scope.agent))
        return [match for match in matches if match.id in own_ids] or matches
    return matches


def list_tools(
    records: Records, scope: Scope, *, agent: str | None, tag: str | None, limit: int, cursor: str | None
) -> ToolList:
    """Return a page of an agent's tools, or without an agent of all the organization's, ordered by id."""
    if cursor is not None and not is_id(cursor):
        raise InvalidInput(
            f"invalid cursor {cursor[:40]!r}", value=cursor, remedy="pass the value from the previous page"
        )
    organization = scope.organization
    if agent is None:
        where = [Where("tags", Op.CONTAINS, tag)] if tag is not None else []
        after = Page(None, (organization, cursor)) if cursor is not None else None
        rows = records.scan(Tool, organization, where, after=after, limit=limit + 1)
    else:
        ids = sorted(
            tool_id for tool_id in _list_tool_ids(records, organization, agent) if cursor is None or tool_id > cursor
        )
        rows = [tool for _, tool in sorted(records.get(Tool, organization, ids).items())]
        rows = [tool for tool in rows if tag is None or tag in tool.tags]
    page = tuple(rows[:limit])
    return ToolList(page, page[-1].id if len(rows) > limit else None)


def _list_tool_ids(records: Records, organization: str, agent: str) -> list[str]:
    return [
        tool_id for (tool_id,) in records.columns(ToolAgent, organization, ("tool_id",), _make_agent_condition(agent))
    ]


def _make_agent_condition(agent: str) -> list[Where]:
    return [Where("agent_id", Op.EQ, agent)]


# writing


def create_tool(deps: ToolDeps, scope: Scope, fields: Mapping[str, Any], *, replace: bool, attach: bool) -> Tool:
    """Create a tool. With `replace`, a tool of the same name is changed instead; with `attach`, the agent gets it."""
    _check_fields(deps, fields)
    if attach:
        require_agent(scope)
    if not replace:
        _require_free_name(deps.records, scope, fields["name"])
    elif _find_by_name(deps.records, scope, fields["name"], deleted=False):
        tool = require_tool(deps.records, scope, fields["name"])
        changes = {name: value for name, value in fields.items() if name != "id" and tool.__dict__[name] != value}
        tool = update_tool(deps, scope, tool.id, changes, None) if changes else tool
        return attach_tool(deps, scope, tool.id) if attach else tool
    return _add(deps, scope, fields, attach=attach)


def _require_free_name(records: Records, scope: Scope, name: str) -> None:
    """Raise AlreadyExists if a live tool has the name.

    This is not a unique rule of the store, because imported agents may have tools with taken names, which are called by
    id.
    """
    if _find_by_name(records, scope, name, deleted=False):
        raise AlreadyExists(
            f"tool {name!r} exists",
            value=name,
            remedy=Remedy("choose another name, or create it with {}", Argument("replace", True)),
            table=get_table(Tool).name,
            rule="name",
        )


def _add(deps: ToolDeps, scope: Scope, fields: Mapping[str, Any], *, attach: bool) -> Tool:
    """Store a new tool and return it; with `attach`, also give it to the agent of the scope."""
    now = clock.now()
    stamps = {"organization_id": scope.organization, "created_at": now, "updated_at": now, "created_by_id": scope.actor}
    tool = validate_row(Tool, {"id": clock.make_id("tool"), **fields, **stamps})
    rows = deps.scope_rows.make_missing_rows(_confine(scope), now)
    link = [Put(_make_link(scope, tool.id))] if attach else []
    line = _make_line(deps, scope, "create", {"tool": tool.id})
    try:
        deps.records.commit([*rows, Put(tool), *link, line, Put(make_announcement(tool))])
    except AlreadyExists as error:
        if error.table != get_table(Tool).name:
            raise
        raise AlreadyExists(
            f"tool id {tool.id!r} is taken", value=tool.id, remedy="choose another id", table=error.table, rule="key"
        ) from None
    deps.scope_rows.confirm(_confine(scope))
    return tool


def update_tool(
    deps: ToolDeps, scope: Scope, name: str, changes: Mapping[str, Any], expected_version: int | None
) -> Tool:
    """Change fields of a tool and return it; raise StaleVersion if its version is not `expected_version`."""

    _check_fields(deps, changes)

    def read_and_patch(_: int) -> Tool:
        tool = require_tool(deps.records, scope, name)
        require_own_tool(deps.records, scope, tool)
        require_version(tool, expected_version)
        now = max(clock.now(), tool.updated_at)  # another computer's clock may be ahead
        stamps = {"updated_at": now, "last_updated_by_id": scope.actor}
        after = validate_row(Tool, {**tool.__dict__, **changes, **stamps, "version": tool.version + 1})
        if after.name != tool.name:
            _require_free_name(deps.records, scope, after.name)
        values = {**{field: after.__dict__[field] for field in changes}, **stamps}
        patch = Patch(Tool, (scope.organization, tool.id), values, tool.version)
        line = _make_line(deps, scope, "update", {"tool": tool.id, "fields": sorted(changes)})
        try:
            deps.records.commit([patch, line, Put(make_announcement(after))])
        except StaleVersion as error:
            raise TryAgain("another writer changed the tool") from error
        return after

    busy = StoreBusy(f"tool {name!r} kept changing while it was updated")
    return retry("update a tool", read_and_patch, CONFLICTS, give_up=lambda _: busy)


def attach_tool(deps: ToolDeps, scope: Scope, name: str) -> Tool:
    """Give a tool to the scope's agent, if it does not have it. Raise Conflict if it has another tool of this name."""
    agent = require_agent(scope)
    tool = require_tool(deps.records, scope, name)
    agent_tools = deps.records.get(Tool, scope.organization, _list_tool_ids(deps.records, scope.organization, agent))
    if tool.id in agent_tools:
        return tool
    if any(other.name == tool.name for other in agent_tools.values()):
        raise Conflict(
            f"agent {agent!r} has another tool named {tool.name!r}", value=tool.name, remedy="detach it first"
        )
    now = clock.now()
    rows = deps.scope_rows.make_missing_rows(_confine(scope), now)
    # A link that was hidden with an agent or a tool may still exist, and then its key is taken.
    link = _make_link(scope, tool.id)
    line = _make_line(deps, scope, "update", {"tool": tool.id, "attached": True})
    delete_hidden = Delete(ToolAgent, (scope.organization, tool.id, agent))
    try:
        deps.records.commit([*rows, delete_hidden, Put(link), line, Put(make_announcement(tool, owner=link))])
    except AlreadyExists as error:
        if error.table != get_table(ToolAgent).name:  # else another writer attached it at the same time
            raise
    deps.scope_rows.confirm(_confine(scope))
    return tool


def detach_tool(deps: ToolDeps, scope: Scope, name: str) -> Tool:
    """Take a tool from the scope's agent; raise NotFound if the agent does not have it."""
    agent = require_agent(scope)
    tool = require_tool(deps.records, scope, name)
    if tool.id not in _list_tool_ids(deps.records, scope.organization, agent):
        raise NotFound(f"agent {agent!r} has no tool {name!r}", value=name, remedy="there is nothing to detach")
    line = _make_line(deps, scope, "update", {"tool": tool.id, "attached": False})
    delete_link = Delete(ToolAgent, (scope.organization, tool.id, agent))
    announcement = make_announcement(tool, owner=_make_link(scope, tool.id))
    deps.records.commit([delete_link, line, Put(announcement)])
    return tool


def require_deleted_tool(records: Records, scope: Scope, name: str) -> Tool:
    """Return a tool to restore; raise NotFound if it is not deleted, or was deleted with the organization."""
    tool = require_tool(records, scope, name, deleted=True)
    if tool.deletion_id is None:
        raise NotFound(f"tool {name!r} is not deleted", value=name, remedy="there is nothing to restore")
    organization = records.get(Organization, scope.organization, [scope.organization], deleted=True)
    if any(row.deletion_id == tool.deletion_id for row in organization.values()):
        raise NotFound(
            f"tool {name!r} was deleted with its organization", value=name, remedy="restore the organization"
        )
    _require_free_name(records, scope, tool.name)
    require_own_tool(records, scope, tool)
    return tool


def require_own_tool(records: Records, scope: Scope, tool: Tool) -> None:
    """Raise Conflict if the scope names an agent and another agent has the tool too."""
    if scope.agent is None:
        return
    where = [Where("tool_id", Op.EQ, tool.id)]
    # The links of a deleted tool are hidden with it.
    links = records.columns(ToolAgent, scope.organization, ("agent_id",), where, deleted=tool.is_deleted)
    agents = {agent for (agent,) in links}
    if agents - {scope.agent}:
        raise Conflict(
            f"other agents have tool {tool.name!r}, too", value=tool.id, remedy="use a scope without the agent"
        )


def require_version(tool: Tool, expected: int | None) -> None:
    """Raise StaleVersion if `expected` is not None and the tool has another version."""
    if expected is not None and tool.version != expected:
        raise StaleVersion(
            f"tool {tool.name!r} is at version {tool.version}, not {expected}",
            remedy=Remedy("read it again and retry with {}", Argument("expected_version", tool.version)),
            current_version=tool.version,
        )


def require_agent(scope: Scope) -> str:
    """Return the scope's agent; raise InvalidInput if it names none."""
    if scope.agent is None:
        raise InvalidInput("the scope names no agent", remedy=Remedy("name one with {}", Argument("agent", "ID")))
    return scope.agent


def _check_fields(deps: ToolDeps, fields: Mapping[str, Any]) -> None:
    """Raise InvalidInput for an invalid name or schema, or a text that is too long."""
    if "name" in fields:
        check_name(fields["name"])
    schema = fields.get("json_schema", {})
    if not isinstance(schema, Mapping):
        raise InvalidInput(f"json_schema is {format_value(schema)}", value=schema, remedy="pass an object")
    check_defaults(schema)
    for field in ("description", "source_code"):
        size = len(fields[field].encode()) if isinstance(fields.get(field), str) else 0
        if size > deps.text_bytes:
            raise InvalidInput(
                f"{field} has {size:,} bytes, over the limit of {deps.text_bytes:,}",
                remedy="shorten it, or raise the setting text_bytes",
            )


def _confine(scope: Scope) -> Scope:
    """Return the scope without its session, because storing a tool must not begin a session."""
    return Scope(organization=scope.organization, agent=scope.agent)


def _make_link(scope: Scope, tool_id: str) -> ToolAgent:
    now = clock.now()
    values = {"organization_id": scope.organization, "tool_id": tool_id, "agent_id": scope.agent}
    return validate_row(ToolAgent, {**values, "created_at": now, "updated_at": now, "created_by_id": scope.actor})


def _make_line(deps: ToolDeps, scope: Scope, operation: LoggedOperation, request: dict[str, Any]) -> Operation:
    return Put(make_access_line(scope, operation, clock.now(), request, interface=deps.interface))
