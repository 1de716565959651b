"""The command that shows what changes in a scope."""

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from everhold import ChangeEvent
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.shared.documents import Line, document, encode_json

app = typer.Typer()

_COLUMNS = ("number", "operation", "entity", "id", "user", "session")


@command(app, "events")
def events(
    call: Call,
    after: Annotated[int, typer.Option(metavar="NUMBER", help="Only events after the one with this number.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Then wait for further events, until Ctrl-C; one per line.")
    ] = False,
) -> CommandResult:
    """Show the changes in a scope, oldest first; --follow waits for further ones."""
    stream = call.view.events(after=after, follow=follow)
    if follow:
        for event in stream:
            print(_format_line(event, as_json=call.as_json), flush=True)
    changes = list(stream)
    return CommandResult({"events": changes}, _make_table(changes) if changes else Text("no events"))


def _format_line(event: ChangeEvent, *, as_json: bool) -> str:
    if as_json:
        return encode_json(Line(document(event)))
    return "  ".join(str(getattr(event, name) or "-") for name in _COLUMNS)


def _make_table(changes: Iterable[ChangeEvent]) -> Table:
    table = Table(*_COLUMNS, box=None, header_style="bold")
    for event in changes:
        table.add_row(*[show.render_text(str(getattr(event, name) or "")) for name in _COLUMNS])
    return table
