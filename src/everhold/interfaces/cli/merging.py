"""The command that makes memories one that say the same."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command
from everhold.remember.merge import Merged

app = typer.Typer()

_LONGEST = 200


@command(app, "merge")
def merge(
    call: Call,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be merged.")] = False,
) -> Outcome:
    """Make memories one that say the same in nearly the same words."""
    merged = call.view.merge_duplicates(preview=preview)
    return Outcome(merged, _shown(merged))


def _shown(merged: Merged) -> RenderableType:
    many = f"{merged.count or 'no'} {'memory' if merged.count == 1 else 'memories'}"
    done = "would be merged" if merged.preview else "merged; `everhold undo ID` takes one back"
    heading = Text(f"{many} {done if merged.count else 'to merge'}", style="bold")
    table = show.table("likeness", "stays", "goes")
    for pair in merged.pairs:
        kept, gone = (show.plain(f"{one.id}\n{one.text}", _LONGEST) for one in (pair.kept, pair.merged))
        table.add_row(f"{pair.likeness:.3f}", kept, gone)
    hidden = merged.count - len(merged.pairs)
    rest = [Text(f"… and {hidden:,} more", style="dim")] if hidden else []
    partial = [] if merged.exhaustive else [Text("too many to compare each with each; neighbours were", style="dim")]
    return Group(heading, *([table] if merged.pairs else []), *rest, *partial)
