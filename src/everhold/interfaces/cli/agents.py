"""Commands on agents and their states."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Agent, AgentFile, AgentState
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.deleting import Hard, Preview, Yes, run_deletion
from everhold.interfaces.cli.groups import Object, Word
from everhold.interfaces.shared.inputs import parse_list, parse_object, parse_value
from everhold.interfaces.shared.times import format_local
from everhold.schema.codec import encode_json

app = typer.Typer(help="Agents of an organization; --agent names one.")
states = typer.Typer(help="The state of an agent between calls; --agent and --session select it.")

ExpectedVersion = Annotated[int | None, typer.Option(metavar="N", help="Refuse if it is at another version.")]
TextOption = Annotated[str | None, typer.Option(metavar="TEXT")]
Items = Annotated[str | None, typer.Option(metavar="JSON", help="A list.")]
AgentFilePath = Annotated[Path, typer.Argument(metavar="FILE")]
WithMemories = Annotated[bool, typer.Option("--memories", help="With its memories of the --user and --project.")]
_HIDDEN = ("organization_id", "is_deleted", "deleted_at", "deletion_id")


def read_agent_fields(
    call: Call,
    name: TextOption = None,
    agent_type: Annotated[str | None, typer.Option("--type", metavar="WORD")] = None,
    description: TextOption = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="Its directives.")] = None,
    topic: TextOption = None,
    mcp_tool: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="The name of an MCP server; may be repeated.")
    ] = None,
    tool_rules: Items = None,
    message_ids: Items = None,
    llm_config: Object = None,
    embedding_config: Object = None,
    config: Object = None,
    metadata: Object = None,
) -> dict[str, Any]:
    """Return the fields of an agent that were passed."""
    plain_options = {"name": name, "agent_type": agent_type, "description": description, "system": system,
                     "topic": topic, "mcp_tools": mcp_tool or None}  # fmt: skip
    list_options = {"tool_rules": tool_rules, "message_ids": message_ids}
    object_options = {
        "llm_config": llm_config,
        "embedding_config": embedding_config,
        "config": config,
        "metadata": metadata,
    }
    return {
        **{field: value for field, value in plain_options.items() if value is not None},
        **{field: parse_list(text, _spell(field)) for field, text in list_options.items() if text is not None},
        **{field: parse_object(text, _spell(field)) for field, text in object_options.items() if text is not None},
    }


def _spell(field: str) -> str:
    """Return the option for a field."""
    return f"--{field.replace('_', '-')}"


@command(app, "create", creates_store=True, fields=read_agent_fields)
def create(call: Call, *, fields: dict[str, Any]) -> CommandResult:
    """Create an agent; without --agent it gets a new id."""
    agent = call.view.create_agent(**fields)
    return _show_changed(agent, f"created agent {agent.id}")


@command(app, "show")
def show_agent(call: Call) -> CommandResult:
    """Show an agent with all its fields."""
    agent = call.view.agent()
    return CommandResult({"agent": agent}, show.make_fields_table(_collect_visible_fields(agent), call.zone))


@command(app, "list")
def list_agents(
    call: Call,
    status: Annotated[str | None, typer.Option(metavar="active|paused|terminated")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Those that can be restored.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", help="How many at once.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
) -> CommandResult:
    """List the agents of an organization."""
    page = call.view.agents(status=status, deleted=deleted, limit=limit, cursor=cursor)  # type: ignore[arg-type]
    table = show.make_table("id", "name", "status", "about")
    for agent in page:
        description = agent.description or agent.topic or agent.system or ""
        table.add_row(
            show.render_text(agent.id),
            show.render_text(agent.name or "", 40),
            agent.status,
            show.render_text(description, 60),
        )
    footer: list[RenderableType] = [Text(f"more: --cursor {page.cursor!r}", style="dim")] if page.cursor else []
    output = Group(table, *footer) if page else show.render_text("no agents")
    return CommandResult({"agents": page.rows, "cursor": page.cursor}, output)


@command(app, "update", fields=read_agent_fields)
def update(call: Call, expected_version: ExpectedVersion = None, *, fields: dict[str, Any]) -> CommandResult:
    """Change an agent; each field replaces what was there."""
    agent = call.view.update_agent(expected_version=expected_version, **fields)
    return _show_changed(agent, f"updated agent {agent.id}")


@command(app, "clone")
def clone(
    call: Call,
    clone_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the new agent.")],
    share_blocks: Annotated[bool, typer.Option("--share-blocks", help="Share its blocks instead of copying.")] = False,
    state: Annotated[bool, typer.Option("--state", help="With its state.")] = False,
    memories: WithMemories = False,
    name: Word = None,
) -> CommandResult:
    """Create an agent like another one, with its tools and blocks."""
    fields: dict[str, Any] = {} if name is None else {"name": name}
    blocks: Any = "share" if share_blocks else "copy"
    agent = call.view.clone_agent(clone_id, blocks=blocks, state=state, memories=memories, **fields)
    return _show_changed(agent, f"created agent {agent.id}")


@command(app, "pause")
def pause(call: Call) -> CommandResult:
    """Let an agent take no new runs until it is resumed."""
    agent = call.view.pause_agent()
    return _show_changed(agent, f"agent {agent.id} is paused")


@command(app, "resume")
def resume(call: Call) -> CommandResult:
    """Resume a paused agent."""
    agent = call.view.resume_agent()
    return _show_changed(agent, f"agent {agent.id} is active")


@command(app, "terminate")
def terminate(call: Call) -> CommandResult:
    """End an agent for good; it can still be read and cloned."""
    agent = call.view.terminate_agent()
    return _show_changed(agent, f"agent {agent.id} is terminated")


@command(app, "delete")
def delete(call: Call, hard: Hard = False, yes: Yes = False, preview: Preview = False) -> CommandResult:
    """Delete an agent with all that belongs to it. Shows what will be deleted and asks first."""
    label = f"agent {call.scope.get('agent')}"
    return run_deletion(call.view.delete_agent, label, hard=hard, yes=yes, preview=preview)


@command(app, "restore")
def restore(call: Call) -> CommandResult:
    """Restore a deleted agent."""
    agent = call.view.restore_agent()
    return _show_changed(agent, f"restored agent {agent.id}")


@command(app, "export")
def export(
    call: Call,
    path: AgentFilePath,
    memories: WithMemories = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> CommandResult:
    """Write an agent to one file, with its blocks, tools, state and the messages in its context."""
    agent_file = call.view.export_agent(path, memories=memories, overwrite=overwrite)
    return _show_file(agent_file, f"wrote agent {agent_file.agent.id} to {path}")


@command(app, "import", creates_store=True)
def import_file(
    call: Call,
    path: AgentFilePath,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which agent of a Letta file with several.")
    ] = None,
) -> CommandResult:
    """Create an agent from a file of `export`, or from Letta's agent file (.af)."""
    agent_file = call.view.import_agent(path, source=source)
    return _show_file(agent_file, f"created agent {agent_file.agent.id}")


@command(states, "show")
def show_state(call: Call) -> CommandResult:
    """Show the state of an agent, for the --session or without one."""
    state = call.view.state()
    if state is None:
        return CommandResult({"state": None}, show.render_text("no state"), 1)
    return _show_state(call, state)


@command(states, "set", creates_store=True)
def set_state(
    call: Call,
    value: Annotated[str, typer.Argument(metavar="JSON", help="The whole state.")],
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="When it expires, such as 1h.")] = None,
    metadata: Object = None,
    expected_version: Annotated[
        int | None, typer.Option(metavar="N", help="Refuse if it is at another version; 0: if there is one.")
    ] = None,
) -> CommandResult:
    """Store the state of an agent in place of the one that is there."""
    state = call.view.set_state(
        parse_value(value, "the state"),
        expires_at=call.parse_expiry(expires),
        metadata=None if metadata is None else parse_object(metadata, "--metadata"),
        expected_version=expected_version,
    )
    return _show_state(call, state)


@command(states, "clear")
def clear_state(call: Call, expected_version: ExpectedVersion = None) -> CommandResult:
    """Remove the state of an agent."""
    existed = call.view.clear_state(expected_version=expected_version)
    sentence = "cleared the state" if existed else "there was no state"
    return CommandResult({"cleared": existed}, show.render_text(sentence))


def _collect_visible_fields(agent: Agent) -> dict[str, Any]:
    values = {
        name: value for name, value in agent.__dict__.items() if name not in _HIDDEN and value not in (None, [], {})
    }
    return {name: encode_json(value) if isinstance(value, dict | list) else value for name, value in values.items()}


def _show_changed(agent: Agent, sentence: str) -> CommandResult:
    return CommandResult({"agent": agent}, show.render_text(sentence))


def _show_file(file: AgentFile, sentence: str) -> CommandResult:
    counts = {"blocks": file.blocks, "tools": file.tools, "messages": file.messages, "memories": file.memories}
    document = {"agent": file.agent, **counts, "has_state": file.has_state, "skipped": file.skipped}
    summary = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    lines = [f"{sentence}: {summary}", *(f"skipped: {part}" for part in file.skipped)]
    return CommandResult(document, Group(*map(show.render_text, lines)))


def _show_state(call: Call, state: AgentState) -> CommandResult:
    details = f"version {state.version}"
    if state.expires_at is not None:
        details += f", expires {format_local(state.expires_at, call.zone)}"
    return CommandResult(
        {"state": state}, Group(show.render_text(encode_json(state.state)), Text(details, style="dim"))
    )
