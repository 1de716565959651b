"""Commands on tools, and on the tools of an agent.

A tool is created from a JSON file: the command line never imports code to read a function.
"""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Tool
from everhold.errors import FileError, InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.deleting import Hard, Preview, Yes, run_deletion
from everhold.interfaces.cli.groups import Object, Tags
from everhold.interfaces.cli.memory_results import render_cursor
from everhold.interfaces.shared.documents import encode_json
from everhold.interfaces.shared.inputs import parse_object

app = typer.Typer(help="Tools that agents can call; --agent names an agent.")

_MAX_FILE_BYTES = 2_000_000
ToolName = Annotated[str, typer.Argument(metavar="TOOL", help="The name or the id of a tool.")]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="What it does, for the model.")]
Version = Annotated[int | None, typer.Option(metavar="N", help="Refuse if the tool is at another version.")]
Tag = Annotated[str | None, typer.Option(metavar="TAG", help="Only tools with this tag.")]


def read_tool_fields(
    call: Call,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Its name for the model.")] = None,
    description: Description = None,
    tag: Tags = None,
    metadata: Object = None,
) -> dict[str, Any]:
    """Return the fields of a tool that were passed."""
    plain_options = {"name": name, "description": description, "tags": tag or None}
    object_options = {} if metadata is None else {"metadata": parse_object(metadata, "--metadata")}
    return {**{field: value for field, value in plain_options.items() if value is not None}, **object_options}


@command(app, "create", creates_store=True, fields=read_tool_fields)
def create(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON: a tool as OpenAI, Anthropic or MCP write it; - is "
                                                             "standard input.")],
    own_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Your own id for it.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change a tool of the same name.")] = False,
    attach: Annotated[bool, typer.Option("--attach", help="Give it to the --agent.")] = False,
    *,
    fields: dict[str, Any],
) -> CommandResult:  # fmt: skip
    """Create a tool from a JSON file."""
    identity: dict[str, Any] = {} if own_id is None else {"id": own_id}
    tool = call.view.create_tool_from(_read_object(file), replace=replace, attach=attach, **identity, **fields)
    return _show_changed(tool, f"tool {tool.name} is at version {tool.version} ({tool.id})")


@command(app, "update", fields=read_tool_fields)
def update(
    call: Call,
    tool: ToolName,
    schema: Annotated[str | None, typer.Option(metavar="FILE", help="JSON: the schema of its arguments.")] = None,
    expected_version: Version = None,
    *,
    fields: dict[str, Any],
) -> CommandResult:
    """Change a tool."""
    schema_fields: dict[str, Any] = {} if schema is None else {"json_schema": _read_object(schema)}
    row = call.view.update_tool(tool, expected_version=expected_version, **schema_fields, **fields)
    return _show_changed(row, f"tool {row.name} is at version {row.version}")


@command(app, "list")
def list_tools(
    call: Call,
    tag: Tag = None,
    every: Annotated[bool, typer.Option("--all", help="Also tools that the --agent does not have.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 100,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
) -> CommandResult:
    """Show the tools of the agent, or of the organization."""
    page = call.view.tools(tag=tag, attached=not every, limit=limit, cursor=cursor)
    table = make_tools_table(page)
    return CommandResult(
        {"tools": page.rows, "cursor": page.cursor},
        Group(table, *([render_cursor(page.cursor)] if page.cursor else [])),
    )


def make_tools_table(tools: Any) -> RenderableType:
    """Return tools as a table, or a line that says that there are no tools."""
    table = show.make_table("tool", "arguments", "tags", "what it does")
    for tool in tools:
        names = ", ".join(tool.json_schema.get("properties", {}))
        table.add_row(
            show.render_text(tool.name),
            show.render_text(names, 40),
            show.render_text(", ".join(tool.tags), 30),
            show.render_text(tool.description or "", 80),
        )
    return table if tools else Text("no tools", style="dim")


@command(app, "show")
def show_tool(call: Call, tool: ToolName) -> CommandResult:
    """Show a tool with its schema and its source."""
    row = call.view.tool(tool)
    field_names = ("id", "name", "description", "source_type", "version", "created_at", "updated_at", "created_by_id")
    fields = {name: row.__dict__[name] for name in field_names}
    fields["tags"] = ", ".join(row.tags)
    parts = [show.make_fields_table(fields, call.zone), Text(), _render_json(row.json_schema)]
    if row.source_code:
        parts += [Text(), show.render_text(row.source_code)]
    return CommandResult({"tool": row}, Group(*parts))


@command(app, "check")
def check(
    call: Call, tool: ToolName, arguments: Annotated[str, typer.Argument(metavar="JSON", help="The arguments.")]
) -> CommandResult:
    """Check the arguments of a call, and show them with the defaults of the tool."""
    arguments_with_defaults = call.view.check_call(tool, arguments)
    return CommandResult({"arguments": arguments_with_defaults}, _render_json(arguments_with_defaults))


@command(app, "attach", creates_store=True)
def attach(call: Call, tool: ToolName) -> CommandResult:
    """Give the agent a tool."""
    row = call.view.attach_tool(tool)
    return _show_changed(row, f"agent {call.scope['agent']} has tool {row.name}")


@command(app, "detach")
def detach(call: Call, tool: ToolName) -> CommandResult:
    """Take a tool from the agent; the tool stays."""
    row = call.view.detach_tool(tool)
    return _show_changed(row, f"agent {call.scope['agent']} no longer has tool {row.name}")


@command(app, "delete")
def delete(call: Call, tool: ToolName, hard: Hard = False, yes: Yes = False, preview: Preview = False) -> CommandResult:
    """Delete a tool, also from its agents. Shows what will be deleted and asks first."""

    def delete_tool(*, hard: bool, preview: bool) -> Any:
        return call.view.delete_tool(tool, hard=hard, preview=preview)

    return run_deletion(delete_tool, f"tool {tool}", hard=hard, yes=yes, preview=preview)


@command(app, "restore")
def restore(call: Call, tool: ToolName) -> CommandResult:
    """Restore a deleted tool."""
    row = call.view.restore_tool(tool)
    return _show_changed(row, f"restored tool {row.name}")


@command(app, "render")
def render(
    call: Call,
    form: Annotated[Literal["openai", "anthropic"], typer.Option("--format", help="Whose API it is for.")] = "openai",
    tag: Tag = None,
) -> CommandResult:
    """Print the tools as JSON, as a model's API takes them."""
    page = call.view.tools(tag=tag, limit=10_000)
    definitions = page.as_openai() if form == "openai" else page.as_anthropic()
    return CommandResult(definitions, _render_json(definitions))


def _show_changed(tool: Tool, sentence: str) -> CommandResult:
    return CommandResult({"tool": tool}, show.render_text(sentence))


def _render_json(value: Any) -> Text:
    """Return JSON on one line: a line break inside a text would make it something else."""
    return Text(encode_json(value), no_wrap=True, overflow="ignore")


def _read_object(file: str) -> dict[str, Any]:
    """Return the JSON object in a file, or in standard input."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(_MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 at byte {error.start}", remedy="save it as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{file[:200]} cannot be read: {reason}", remedy="name a readable JSON file") from None
    if len(content) > _MAX_FILE_BYTES:
        raise InvalidInput(f"{file} has more than {_MAX_FILE_BYTES:,} bytes", remedy="name the file of one tool")
    return parse_object(text, file)
