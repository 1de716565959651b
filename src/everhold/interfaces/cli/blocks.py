"""Commands on blocks: texts that are always part of an agent's prompt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from everhold import Block
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.deleting import Hard, Preview, Yes, run_deletion
from everhold.interfaces.cli.groups import Object
from everhold.interfaces.cli.inputs import read_text
from everhold.interfaces.shared.inputs import parse_object
from everhold.interfaces.shared.times import format_local

if TYPE_CHECKING:
    from everhold import View

app = typer.Typer(help="Core memory: texts that are always part of an agent's prompt.")

_MAX_VALUE_LENGTH = 400
_SHOWN_FIELDS = ("id", "label", "user_id", "description", "template_name", "is_template", "version", "updated_at")

BlockArgument = Annotated[str, typer.Argument(metavar="NAME", help="The label or the id of a block.")]
TextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="- reads standard input.")]
Version = Annotated[int | None, typer.Option(metavar="N", help="The number of a version.")]


def read_block_fields(
    call: Call,
    limit: Annotated[int | None, typer.Option(metavar="N", help="How many characters it may hold.")] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for.")] = None,
    template_name: Annotated[str | None, typer.Option(metavar="NAME", help="The name of a template.")] = None,
    metadata: Object = None,
) -> dict[str, Any]:
    """Return the fields of a block that were passed."""
    options = {"limit": limit, "description": description, "template_name": template_name}
    fields: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return fields if metadata is None else {**fields, "metadata": parse_object(metadata, "--metadata")}


def read_edit_options(
    call: Call,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why it changes; kept in the history.")] = None,
    expected_version: Annotated[
        int | None, typer.Option(metavar="N", help="Refuse if the block is at another version.")
    ] = None,
) -> dict[str, Any]:
    """Return the options that every edit takes."""
    return {"reason": reason, "expected_version": expected_version}


@command(app, "create", creates_store=True, fields=read_block_fields)
def create(
    call: Call,
    label: Annotated[str | None, typer.Argument(metavar="LABEL", help="Such as human, persona or system.")] = None,
    value: Annotated[str | None, typer.Argument(metavar="TEXT", help="- reads standard input.")] = None,
    template: Annotated[str | None, typer.Option(metavar="NAME", help="The template to copy.")] = None,
    is_template: Annotated[
        bool, typer.Option("--as-template", help="Make a template, which is not part of prompts.")
    ] = False,
    own_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Your own id: a second call with it adds nothing.")
    ] = None,
    *,
    fields: dict[str, Any],
) -> CommandResult:
    """Create a block of the --user, attached to the --agent."""
    if own_id is not None:
        fields["id"] = own_id
    text = None if value is None else read_text(value)
    block = call.view.create_block(label, text, template=template, is_template=is_template, **fields)
    return _show_changed(block, f"created block {block.label} ({block.id})")


@command(app, "show")
def show_block(
    call: Call,
    name: BlockArgument,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="As it was at that time.")] = None,
) -> CommandResult:
    """Show a block with its value and its agents."""
    block = call.view.block(name, as_of=call.parse_moment("--as-of", as_of))
    agents = call.view.block_agents(block.id)
    fields = {field: block.__dict__[field] for field in _SHOWN_FIELDS}
    fields |= {"agents": ", ".join(agents), "characters": f"{len(block.value):,} of {block.limit:,}"}
    parts: list[RenderableType] = [show.make_fields_table(fields, call.zone), Text(), show.render_text(block.value)]
    return CommandResult({"block": block, "agents": agents}, Group(*parts))


@command(app, "list")
def list_blocks(
    call: Call,
    label: Annotated[str | None, typer.Option(metavar="LABEL", help="Only blocks with this label.")] = None,
    templates: Annotated[bool, typer.Option("--templates", help="Templates instead of blocks.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 50,
) -> CommandResult:
    """Show blocks, by label."""
    blocks = call.view.blocks(label=label, templates=templates, limit=limit)
    return show_blocks(blocks, "no templates" if templates else "no blocks")


def show_blocks(blocks: Sequence[Block], empty: str = "no blocks") -> CommandResult:
    """Return blocks as a table, with the use of their limits."""
    table = show.make_table("label", "id", "user", "characters", "value")
    for block in blocks:
        table.add_row(
            show.render_text(block.label),
            show.render_text(block.id),
            show.render_text(block.user_id or ""),
            f"{len(block.value):,}/{block.limit:,}",
            show.render_text(block.value, 80),
        )
    return CommandResult({"blocks": blocks}, table if blocks else Text(empty, style="dim"))


@command(app, "write", options=read_edit_options)
def write(call: Call, name: BlockArgument, text: TextArgument, *, options: dict[str, Any]) -> CommandResult:
    """Replace the value of a block; its history is kept."""
    return _show_edited(call.view.write_block(name, read_text(text), **options))


@command(app, "append", options=read_edit_options)
def append(call: Call, name: BlockArgument, text: TextArgument, *, options: dict[str, Any]) -> CommandResult:
    """Add a text to the end of a block, on a line of its own."""
    return _show_edited(call.view.append_block(name, read_text(text), **options))


@command(app, "replace", options=read_edit_options)
def replace(
    call: Call,
    name: BlockArgument,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The text to replace.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The text to put there.")],
    every: Annotated[bool, typer.Option("--every", help="Replace all occurrences.")] = False,
    *,
    options: dict[str, Any],
) -> CommandResult:
    """Replace a part of a block's value."""
    return _show_edited(call.view.replace_in_block(name, old, new, every=every, **options))


@command(app, "lines", options=read_edit_options)
def lines(
    call: Call,
    name: BlockArgument,
    first: Annotated[int, typer.Argument(metavar="FIRST", help="The first line to replace, from 1.")],
    last: Annotated[int, typer.Argument(metavar="LAST", help="The last line; FIRST - 1 inserts before FIRST.")],
    text: TextArgument,
    *,
    options: dict[str, Any],
) -> CommandResult:
    """Replace lines of a block; an empty text deletes them."""
    return _show_edited(call.view.rewrite_block_lines(name, first, last, read_text(text), **options))


@command(app, "update", options=read_edit_options, fields=read_block_fields)
def update(call: Call, name: BlockArgument, *, options: dict[str, Any], fields: dict[str, Any]) -> CommandResult:
    """Change the limit, the description, the template name or the metadata of a block."""
    return _show_edited(call.view.update_block(name, **options, **fields))


@command(app, "attach")
def attach(call: Call, name: BlockArgument) -> CommandResult:
    """Put a block into the prompts of the --agent."""
    view, agent = _separate_agent(call)
    block = view.attach_block(name, agent=agent)
    return _show_changed(block, f"block {block.label} is attached to agent {agent}")


@command(app, "detach")
def detach(call: Call, name: BlockArgument) -> CommandResult:
    """Take a block out of the prompts of the --agent."""
    block = call.view.detach_block(name)
    return _show_changed(block, f"block {block.label} is no longer attached to agent {call.scope.get('agent')}")


def _separate_agent(call: Call) -> "tuple[View, str | None]":
    """Return a view that is not limited to the --agent, so that it finds blocks of other agents, and that agent."""
    scope = {name: value for name, value in call.scope.items() if name != "agent"}
    return call.engine.scope(**scope), call.scope.get("agent")


@command(app, "history")
def show_history(call: Call, name: BlockArgument) -> CommandResult:
    """Show the earlier versions of a block."""
    revisions = call.view.block_history(name)
    table = show.make_table("version", "known", "reason", "value")
    for revision in revisions:
        period = f"{format_local(revision.known_from, call.zone)}\n{format_local(revision.known_to, call.zone)}"
        table.add_row(
            str(revision.revision),
            period,
            show.render_text(revision.reason or ""),
            show.render_text(revision.value["value"], _MAX_VALUE_LENGTH),
        )
    output: RenderableType = table if revisions else Text(f"block {name} was never changed", style="dim")
    return CommandResult({"revisions": revisions}, output)


@command(app, "diff")
def diff(call: Call, name: BlockArgument, from_version: Version = None, to_version: Version = None) -> CommandResult:
    """Show what changed between two versions; by default what the last change did."""
    text = call.view.diff_block(name, from_version, to_version)
    return CommandResult({"diff": text}, show.render_text(text) if text else Text("no difference", style="dim"))


@command(app, "undo")
def undo(call: Call, name: BlockArgument, to_version: Version = None) -> CommandResult:
    """Take back the last change of a block, or restore a version."""
    return _show_edited(call.view.undo_block(name, to_version=to_version))


@command(app, "delete")
def delete(
    call: Call, name: BlockArgument, hard: Hard = False, yes: Yes = False, preview: Preview = False
) -> CommandResult:
    """Delete a block with its history. Shows what will be deleted and asks first."""

    def delete_block(*, hard: bool, preview: bool) -> Any:
        return call.view.delete_block(name, hard=hard, preview=preview)

    return run_deletion(delete_block, f"block {name}", hard=hard, yes=yes, preview=preview)


@command(app, "restore")
def restore(call: Call, name: BlockArgument) -> CommandResult:
    """Restore a deleted block."""
    block = call.view.restore_block(name)
    return _show_changed(block, f"restored block {block.label}")


@command(app, "render")
def render(
    call: Call, numbered: Annotated[bool, typer.Option("--numbered", help="Number the lines.")] = False
) -> CommandResult:
    """Print the blocks of the --agent and the --user as a section of a prompt."""
    text = call.view.render_blocks(numbered=numbered)
    if not call.as_json and text:
        Console(highlight=False).print(show.render_text(text), soft_wrap=True)  # a pipe gets whole lines
    return CommandResult({"text": text}, None)


def _show_edited(block: Block) -> CommandResult:
    sentence = f"block {block.label} is at version {block.version}, {len(block.value):,} of {block.limit:,} characters"
    return _show_changed(block, sentence)


def _show_changed(block: Block, sentence: str) -> CommandResult:
    return CommandResult({"block": block}, show.render_text(sentence))
