"""Commands on memories that contradict each other."""

from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.ids import resolve_id
from everhold.interfaces.shared.times import format_local

app = typer.Typer()

_MAX_TEXT_LENGTH = 200


@command(app, "conflicts")
def list_conflicts(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="The maximum number of conflicts.", min=1)] = 50,
) -> CommandResult:
    """List contradictions between memories that maintenance left for you to resolve."""
    conflicts = call.view.conflicts(limit=limit)
    if not conflicts:
        return CommandResult({"conflicts": []}, Text("no conflicts"))
    table = show.make_table("conflict", "found", "older", "newer", "why it is listed")
    for conflict in conflicts:
        older, newer = (
            show.render_text(f"{memory.id}\n{memory.text}", _MAX_TEXT_LENGTH)
            for memory in (conflict.older, conflict.newer)
        )
        found_at = format_local(conflict.found_at, call.zone)
        table.add_row(conflict.id, found_at, older, newer, show.render_text(conflict.reason or "–"))
    hint = Text("`everhold resolve CONFLICT --keep ID` ends one; without --keep, both memories stay", style="dim")
    return CommandResult({"conflicts": conflicts}, Group(table, hint))


@command(app, "resolve")
def resolve(
    call: Call,
    conflict: Annotated[str, typer.Argument(metavar="CONFLICT", help="The id of a conflict.")],
    keep: Annotated[
        str | None, typer.Option(metavar="ID", help="The memory that supersedes the other; without it, both stay.")
    ] = None,
) -> CommandResult:
    """End a conflict between two memories."""
    kept_id = None if keep is None else resolve_id(call, keep)
    resolved_conflict = call.view.resolve_conflict(conflict, keep=kept_id)
    sentence = "both memories stay" if kept_id is None else f"{kept_id} supersedes the other; `everhold undo` undoes it"
    return CommandResult({"conflict": resolved_conflict, "kept": kept_id}, show.render_text(sentence))
