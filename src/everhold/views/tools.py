"""The verbs on tools.

The modules that they need are imported inside the verbs, because most processes use none of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import everhold
from everhold.arguments.checks import Body, Cursor, Identifier, PageSize
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import NotFound
from everhold.model import Tool
from everhold.tenancy import deletion
from everhold.tenancy.deletion import Deleted
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

if TYPE_CHECKING:
    from everhold.tools.pipeline import ToolDeps


class NewToolFields(TypedDict, total=False):
    """The fields of a tool, except its name, that a caller may set when creating it."""

    json_schema: Mapping[str, Any]
    description: Body | None
    source_type: str | None
    source_code: Body | None
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    id: Identifier


class DerivedToolFields(NewToolFields, total=False):
    """The fields of a tool that a caller may set in place of the values from its source."""

    name: str


class ToolFields(TypedDict, total=False):
    """The fields of a tool that a caller may change."""

    name: str
    json_schema: Mapping[str, Any]
    description: Body | None
    source_type: str | None
    source_code: Body | None
    tags: Sequence[str]
    metadata: Mapping[str, Any]


@check_verbs
class ToolVerbs(ScopedView):
    """The verbs on the tools of the scope's organization and of its agent.

    A tool is passed by its name or its id. If the scope names an agent, tools that another agent also has cannot be
    changed.
    """

    @log_as("create")
    def create_tool(
        self, /, name: str, *, replace: bool = False, attach: bool = False, **fields: Unpack[NewToolFields]
    ) -> Tool:
        """Create a tool; `json_schema` describes its arguments.

        Fields: json_schema, description, source_type, source_code, tags, metadata, id. With `replace`, an existing tool
        of this name is changed to these values. With `attach`, the scope's agent gets the tool. Raise AlreadyExists if
        the name is taken and `replace` is false; raise InvalidInput if arguments cannot be checked with the schema.
        """
        return self._create({"name": name, **fields}, replace=replace, attach=attach)

    @log_as("create")
    def create_tool_from(
        self,
        /,
        source: Mapping[str, Any] | Callable[..., Any],
        *,
        replace: bool = False,
        attach: bool = False,
        **fields: Unpack[DerivedToolFields],
    ) -> Tool:
        """Create a tool from a typed function, or from a definition in the format of OpenAI, Anthropic or MCP.

        From a function, the tool gets its name, its docstring, its source code, and a schema made from its annotations.
        The function is not called. `fields` replace values from the source; they are `name` and the fields of
        `create_tool`.
        """
        from everhold.tools.definitions import read_definition
        from everhold.tools.functions import read_function

        source_fields = read_definition(source) if isinstance(source, Mapping) else read_function(source)
        return self._create({**source_fields, **fields}, replace=replace, attach=attach)

    def _create(self, fields: Mapping[str, Any], *, replace: bool, attach: bool) -> Tool:
        from everhold.tools import pipeline

        return pipeline.create_tool(self._tool_deps, self.scope, fields, replace=replace, attach=attach)

    @log_as("read")
    def tool(self, name: str) -> Tool:
        """Return a tool by its name or id. Raise NotFound if the organization has none."""
        from everhold.tools import pipeline

        tool = pipeline.require_tool(self._parts.records, self.scope, name)
        self._log_call("read", {"tool": tool.id})
        return tool

    @log_as("read")
    def tools(
        self,
        *,
        tag: str | None = None,
        agent: Identifier | None = None,
        attached: bool = True,
        limit: PageSize = 100,
        cursor: Cursor | None = None,
    ) -> "everhold.ToolList":
        """Return the tools of the scope's agent, or of `agent`, ordered by id; without an agent, all of the
        organization.

        With `tag`, only tools with that tag are returned. With `attached=False`, tools that the agent does not have are
        listed too. `as_openai()` and `as_anthropic()` of the result return the tools in the form that these APIs take
        as `tools`.
        """
        from everhold.tools import pipeline

        agent_id = (agent or self.scope.agent) if attached else None
        page = pipeline.list_tools(self._parts.records, self.scope, agent=agent_id, tag=tag, limit=limit, cursor=cursor)
        self._log_call("read", {"tools": len(page)})
        return page

    @log_as("read")
    def check_call(self, tool: str, arguments: Mapping[str, Any] | Body) -> dict[str, Any]:
        """Return the arguments for a call of a tool, completed by the defaults of the tool's schema.

        `arguments` may be JSON text. Raise InvalidArguments if they do not fit the schema: the message and `faults` of
        the error say for each argument what is wrong and what is expected.
        """
        from everhold.tools import pipeline
        from everhold.tools.checking import check_arguments, parse_arguments

        row = pipeline.require_tool(self._parts.records, self.scope, tool)
        completed = check_arguments(row.name, row.json_schema, parse_arguments(arguments))
        self._log_call("read", {"tool": row.id, "arguments": len(completed)})
        return completed

    @log_as("update")
    def update_tool(self, /, tool: str, *, expected_version: int | None = None, **fields: Unpack[ToolFields]) -> Tool:
        """Change fields of a tool. Raise StaleVersion if its version is not `expected_version`.

        Fields: name, json_schema, description, source_type, source_code, tags, metadata. Each replaces the old value.
        """
        from everhold.tools import pipeline

        return pipeline.update_tool(self._tool_deps, self.scope, tool, fields, expected_version)

    @log_as("update")
    def attach_tool(self, tool: str) -> Tool:
        """Give a tool to the scope's agent, if it does not have it yet.

        Raise Conflict if it has another tool of the same name.
        """
        from everhold.tools import pipeline

        return pipeline.attach_tool(self._tool_deps, self.scope, tool)

    @log_as("update")
    def detach_tool(self, tool: str) -> Tool:
        """Take a tool from the scope's agent without deleting the tool. Raise NotFound if the agent does not have
        it."""
        from everhold.tools import pipeline

        return pipeline.detach_tool(self._tool_deps, self.scope, tool)

    @log_as("delete")
    def delete_tool(self, tool: str, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide a tool, also from the agents that have it, until `restore_tool`.

        With `hard` it is purged; with `preview` its rows are only counted.
        """
        from everhold.tools import pipeline

        records, organization = self._parts.records, self.scope.organization
        row = pipeline.require_tool(records, self.scope, tool, deleted=hard)
        pipeline.require_own_tool(records, self.scope, row)
        rows = {} if row.is_deleted else deletion.count_rows_under(records, "tool", organization, row.id)
        if preview:
            self._log_call("read", {"preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        line = self._make_line("delete", {"tool": row.id, "hard": hard})
        deletion.delete(records, "tool", organization, row.id, hard=hard, line=line)
        return Deleted(rows)

    @log_as("update")
    def restore_tool(self, tool: str) -> Tool:
        """Restore a deleted tool for the agents that had it. Raise AlreadyExists if its name has been taken since."""
        from everhold.tools import pipeline

        records = self._parts.records
        row = pipeline.require_deleted_tool(records, self.scope, tool)
        line = self._make_line("update", {"tool": row.id, "restored": True})
        deletion.restore(records, "tool", self.scope.organization, row.id, line)
        restored_tool = records.get(Tool, self.scope.organization, [row.id]).get(row.id)
        if restored_tool is None:
            raise NotFound(f"tool {tool!r} was deleted again", value=tool, remedy="restore it again")
        return restored_tool

    @property
    def _tool_deps(self) -> "ToolDeps":
        from everhold.tools.pipeline import ToolDeps

        settings = self._parts.settings
        return ToolDeps(self._parts.records, self._parts.write_deps.scope_rows, settings.text_bytes, settings.interface)


class AsyncToolVerbs(AsyncFacade):
    """The verbs of `ToolVerbs`, awaited."""

    create_tool = Awaited(ToolVerbs.create_tool)
    create_tool_from = Awaited(ToolVerbs.create_tool_from)
    tool = Awaited(ToolVerbs.tool)
    tools = Awaited(ToolVerbs.tools)
    check_call = Awaited(ToolVerbs.check_call)
    update_tool = Awaited(ToolVerbs.update_tool)
    attach_tool = Awaited(ToolVerbs.attach_tool)
    detach_tool = Awaited(ToolVerbs.detach_tool)
    delete_tool = Awaited(ToolVerbs.delete_tool)
    restore_tool = Awaited(ToolVerbs.restore_tool)
