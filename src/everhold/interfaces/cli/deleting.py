"""Delete an account or a session from a command: count the rows, ask for confirmation, then delete."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType

from everhold import Deleted
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import CommandResult
from everhold.interfaces.cli.inputs import confirm

Hard = Annotated[bool, typer.Option("--hard", help="Delete permanently; cannot be undone.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Preview = Annotated[bool, typer.Option("--preview", help="Only show what would be deleted.")]


def run_deletion(delete: Callable[..., Deleted], label: str, *, hard: bool, yes: bool, preview: bool) -> CommandResult:
    """Show how many rows a deletion takes along, ask, and delete; `delete` takes `hard` and `preview`."""
    affected = delete(hard=hard, preview=True)
    if preview:
        return _show_deleted(affected, f"deleting {label} would take along")
    if not yes:
        Console(stderr=True, highlight=False).print(_make_counts_table(affected))
        if not confirm(f"Delete {label}{' for good' if hard else ''}?"):
            return CommandResult({"rows": {}, "preview": False}, show.render_text("nothing was deleted"), 1)
    deleted = delete(hard=hard, preview=False)
    ending = " for good" if hard else "; `restore` undoes that"
    return _show_deleted(deleted, f"deleted {label}{ending}")


def _show_deleted(deleted: Deleted, heading: str) -> CommandResult:
    document = {"rows": deleted.rows, "preview": deleted.preview}
    return CommandResult(document, Group(show.render_text(heading), _make_counts_table(deleted)))


def _make_counts_table(deleted: Deleted) -> RenderableType:
    table = show.make_table("what", "rows")
    for name, count in deleted.rows.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    return table
