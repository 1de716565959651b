"""Commands on encryption and its keys."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Everhold, KeyReport
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_call_without_store, make_store_call
from everhold.interfaces.cli.interrupts import explain_interrupted_rotation
from everhold.interfaces.shared.times import format_local

app = typer.Typer(help="Encryption: which fields are encrypted, and with which keys.")
_MAX_SHOWN = 50


@command(app, "list", make_store_call)
def list_keys(call: Call) -> CommandResult:
    """Show which fields are encrypted, and the data keys with their fingerprints."""
    report = call.engine.keys()
    return CommandResult(report, _show_report(call, report), 1 if report.problems else 0)


def _show_report(call: Call, report: KeyReport) -> RenderableType:
    if report.status == "off":
        return Text("nothing is encrypted; `everhold keys create FILE` makes a master key")
    heading = f"master key {report.master_fingerprint}" if report.status == "on" else "the master key is missing"
    fields = show.make_table("field", "encrypted")
    for name, is_complete in report.fields.items():
        fields.add_row(name, "every row" if is_complete else "new rows")
    keys = show.make_table("key", "organization", "user", "for", "generation", "wrapped by", "created")
    for key in report.keys[:_MAX_SHOWN]:
        generation = f"{key.generation}" if key.is_current else f"{key.generation} (only decrypts)"
        created = format_local(key.created_at, call.zone)
        keys.add_row(key.id, key.organization, key.user or "", key.purpose, generation, key.master_fingerprint, created)
    omitted = len(report.keys) - _MAX_SHOWN
    footer = [Text(f"and {omitted:,} further keys; --json shows all", style="dim")] if omitted > 0 else []
    problems = [show.render_text(f"problem: {problem}", style="bold red") for problem in report.problems]
    return Group(show.render_text(heading), fields, keys, *footer, *problems)


@command(app, "create", make_call_without_store)
def create_key(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Only its owner can read it.")],
) -> CommandResult:
    """Write a new master key to a file."""
    fingerprint = Everhold.create_master_key(file)
    output = Group(
        show.render_text(f"wrote the master key {fingerprint} to {file}"),
        show.render_text(f"set encryption.master_key to file:{file.absolute()}"),
        Text("keep a copy elsewhere: without this key, encrypted content is lost", style="yellow"),
    )
    return CommandResult({"file": file, "fingerprint": fingerprint}, output)


@command(app, "rotate", make_store_call)
def rotate_keys(
    call: Call,
    master_only: Annotated[
        bool, typer.Option("--master-only", help="Only wrap the data keys by the current master key.")
    ] = False,
) -> CommandResult:
    """Replace the data keys and encrypt every row again; also after a change of the master key."""
    with call.track_steps(explain_interrupted_rotation) as report:
        rotation = call.engine.rotate_keys(master_only=master_only, progress=report)
    text = (
        f"wrapped {rotation.wrapped:,} keys by {rotation.fingerprint}, replaced {rotation.replaced:,}, "
        f"and encrypted {rotation.rows:,} rows again"
    )
    unreadable = [show.render_text(f"{rotation.unreadable:,} rows cannot be decrypted", style="bold red")]
    output = Group(show.render_text(text), *(unreadable if rotation.unreadable else []))
    return CommandResult(rotation, output, 1 if rotation.unreadable else 0)
