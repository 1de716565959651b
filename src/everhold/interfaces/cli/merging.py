"""The command that merges near-duplicate memories."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.remember.merge import Merged

app = typer.Typer()

_MAX_TEXT_LENGTH = 200


@command(app, "merge")
def merge(
    call: Call,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be merged.")] = False,
) -> CommandResult:
    """Merge near-duplicate memories."""
    merged = call.view.merge_duplicates(preview=preview)
    return CommandResult(merged, _render_merged(merged))


def _render_merged(merged: Merged) -> RenderableType:
    count = f"{merged.count or 'no'} {'memory' if merged.count == 1 else 'memories'}"
    phrase = "would be merged" if merged.preview else "merged; `everhold undo ID` undoes one"
    heading = Text(f"{count} {phrase if merged.count else 'to merge'}", style="bold")
    table = show.make_table("similarity", "stays", "goes")
    for pair in merged.pairs:
        kept_text, merged_text = (
            show.render_text(f"{memory.id}\n{memory.text}", _MAX_TEXT_LENGTH) for memory in (pair.kept, pair.merged)
        )
        table.add_row(f"{pair.similarity:.3f}", kept_text, merged_text)
    hidden = merged.count - len(merged.pairs)
    footer = [Text(f"… and {hidden:,} more", style="dim")] if hidden else []
    warnings = (
        []
        if merged.exhaustive
        else [Text("too many to compare all pairs; only nearest neighbours were compared", style="dim")]
    )
    return Group(heading, *([table] if merged.pairs else []), *footer, *warnings)
