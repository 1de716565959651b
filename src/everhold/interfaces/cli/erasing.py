"""The command that erases a user."""

from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType

from everhold import ErasureProof
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call
from everhold.interfaces.cli.deleting import Preview, Yes
from everhold.interfaces.cli.inputs import confirm
from everhold.interfaces.cli.interrupts import explain_interrupted_erasure

app = typer.Typer()


@command(app, "erase", make_store_call)
def erase(
    call: Call,
    user: Annotated[str, typer.Argument(metavar="USER")],
    organization: Annotated[
        str, typer.Option("--org", metavar="ID", help="Use this organization.", rich_help_panel="Store and scope")
    ] = "default",
    yes: Yes = False,
    preview: Preview = False,
) -> CommandResult:
    """Erase a user everywhere, with a proof, after a confirmation. It cannot be undone."""
    affected = call.engine.erase(user, organization=organization, preview=True)
    if preview:
        return CommandResult(affected, Group(show.render_text(f"erasing {user} would remove"), _make_table(affected)))
    if not yes:
        Console(stderr=True, highlight=False).print(_make_table(affected))
        if not confirm(f"Erase {user} everywhere, for good?"):
            return CommandResult({"erased": False}, show.render_text("nothing was erased"), 1)
    with call.track_steps(explain_interrupted_erasure) as report:
        proof = call.engine.erase(user, organization=organization, progress=report)
    return CommandResult(_describe(proof), _show_proof(proof), 0 if proof.is_complete else 1)


def _describe(proof: ErasureProof) -> dict[str, object]:
    return {**proof.__dict__, "complete": proof.is_complete}


def _make_table(proof: ErasureProof) -> RenderableType:
    table = show.make_table("what", "rows")
    for name, count in proof.rows.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    return table


def _show_proof(proof: ErasureProof) -> RenderableType:
    table = show.make_table("place", "status", "what was done")
    for place in proof.places:
        table.add_row(place.place, place.status, place.detail)
    for target in proof.backups:
        files = "1 file" if target.rewritten == 1 else f"{target.rewritten:,} files"
        detail = target.problem or f"{files} written again or deleted"
        table.add_row(f"backup {target.target}", target.status, detail)
    lines = [
        show.render_text(f"erased {proof.user}: {sum(proof.rows.values()):,} rows, {len(proof.keys):,} keys"),
        _make_table(proof),
        table,
        show.render_text(f"proof {proof.erasure_id}, SHA-256 {proof.digest}"),
    ]
    if not proof.is_complete:
        text = "some data was not erased; run the command again when the unreached places can be reached"
        lines.append(show.render_text(text, style="bold red"))
    return Group(*lines)
