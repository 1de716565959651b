"""Commands on the whole store: log, health, export, settings, move and models."""

import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from everhold import Everhold, __version__
from everhold.access.chain import Verification
from everhold.errors import FileError, InvalidInput
from everhold.files import create_text
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_call_without_store, make_store_call
from everhold.interfaces.cli.ids import resolve_id
from everhold.interfaces.cli.interrupts import explain_interrupted_export, explain_interrupted_move
from everhold.interfaces.shared.times import format_local
from everhold.model import AccessLog
from everhold.settings import FILE, Settings
from everhold.settings import load as load_settings

_MOST_SOURCES = 1000
_SHOWN_SOURCES = 5

app = typer.Typer()
model = typer.Typer(help="The embedding model.")


@command(app, "log")
def log(
    call: Call,
    operation: Annotated[str | None, typer.Option(metavar="create|read|update|delete|search")] = None,
    memory: Annotated[str | None, typer.Option(metavar="ID", help="Only about this memory.")] = None,
    after: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="The maximum number of lines.", min=1)] = 100,
    verify: Annotated[bool, typer.Option("--verify", help="Check that no line was changed, removed or added.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Sign the log as it is now, after restoring a backup.")
    ] = False,
) -> CommandResult:
    """Show the access log, newest first."""
    if verify or accept:
        organization = call.scope["organization"]
        return _show_check(call.engine.accept_log(organization) if accept else call.engine.verify_log(organization))
    lines = call.view.log(
        operation=operation,
        memory_id=None if memory is None else resolve_id(call, memory),
        after=call.parse_moment("--after", after, "ago"),
        before=call.parse_moment("--before", before, "ago"),
        limit=limit,
    )
    table = show.make_table("when", "did", "who", "what")
    for line in lines:
        who = " ".join(name for name in (line.user_id, line.agent_id) if name) or "–"
        table.add_row(
            format_local(line.timestamp, call.zone), line.operation, show.render_text(who), _describe_line(line)
        )
    shown: RenderableType = table if lines else Text("no lines of the log match", style="dim")
    return CommandResult({"lines": lines}, shown)


def _describe_line(line: AccessLog) -> Text:
    details = {name: value for name, value in line.request.items() if name != "memory"}
    parts = [str(line.request.get("memory") or line.memory_id or ""), *(f"{k} {v}" for k, v in details.items())]
    description = show.render_text(" · ".join(part for part in parts if part))
    if not line.success:
        description.append(f" failed: {line.error_message}", style="red")
    return description


def _show_check(check: Verification) -> CommandResult:
    how = "checked without a key" if check.signed is None else f"signed up to line {check.signed:,}"
    if check.intact:
        text = Text(f"the log is intact: {check.lines:,} lines, {how}", style="green")
    else:
        place = "" if check.broken_at is None else f" at line {check.broken_at}"
        text = Text(f"the log is broken{place}: {check.reason}", style="bold red")
    return CommandResult(check, text, 0 if check.intact else 1)


@command(app, "doctor", make_store_call)
def doctor(call: Call) -> CommandResult:
    """Show the parts and contents of the store, and problems."""
    report = call.engine.doctor()
    parts: list[RenderableType] = [show.make_fields_table(report.parts, call.zone), Text()]
    counts = show.make_table("holds", "rows")
    counts.columns[1].justify = "right"
    for name, count in report.counts.items():
        counts.add_row(name, f"{count:,}")
    parts += [counts, Text()]
    parts += [show.render_text(f"problem: {problem}", style="bold red") for problem in report.problems]
    if not report.problems:
        parts.append(Text("no problems", style="green"))
    if not report.counts["organizations"]:  # the first write creates one
        parts.append(Text("this store is new and empty; if you expected data, name its store with --store"))
    return CommandResult(report, Group(*parts), 1 if report.problems else 0)


Organization = Annotated[
    str, typer.Option("--org", metavar="ID", help="Use this organization.", rich_help_panel="Store and scope")
]


@command(app, "export", make_store_call)
def export(
    call: Call,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", dir_okay=False, allow_dash=True, help="JSON lines; - is standard output.")
    ],
    organization: Organization = "default",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    decrypt: Annotated[bool, typer.Option("--decrypt", help="Write encrypted fields in plain text.")] = False,
) -> CommandResult:
    """Export an organization to a file."""
    if str(file) == "-":
        return _export_to_standard_output(call, organization, decrypt)
    with call.track_steps(partial(explain_interrupted_export, file)) as report:
        count = call.engine.export(
            file, organization=organization, overwrite=overwrite, decrypt=decrypt, progress=report
        )
    names = _list_uploaded(call, organization)
    note = [Text(_explain_left_out(names), style="yellow")] if names else []
    shown = Group(show.render_text(f"exported {count:,} rows to {file}"), *note)
    return CommandResult({"file": file, "rows": count, "without_files": names}, shown)


def _list_uploaded(call: Call, organization: str) -> list[str]:
    return [source.name for source in call.engine.scope(organization=organization).sources(limit=_MOST_SOURCES)]


def _explain_left_out(names: Sequence[str]) -> str:
    """Say which files are not in a bundle."""
    shown = ", ".join(names[:_SHOWN_SOURCES])
    rest = len(names) - _SHOWN_SOURCES
    listed = f"{shown} and {rest:,} others" if rest > 0 else shown
    return f"not in the bundle: the data of {listed}; upload the files again after the import, or use `everhold move`"


def _export_to_standard_output(call: Call, organization: str, decrypt: bool) -> CommandResult:
    """Write the export and nothing else to standard output."""
    if call.as_json:
        raise InvalidInput(
            "export - writes the bundle to standard output, where --json writes, too", remedy="leave --json out"
        )
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n", write_through=True)
    try:
        # The bar and the rows would share the terminal if neither is redirected.
        with call.track_steps(partial(explain_interrupted_export, Path("-")), is_quiet=sys.stdout.isatty()) as report:
            call.engine.export(out, organization=organization, decrypt=decrypt, progress=report)
        if names := _list_uploaded(call, organization):
            print(_explain_left_out(names), file=sys.stderr)
    except FileError:
        # The interpreter would try to write the rest again when it ends, and report that instead.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
    finally:
        with suppress(OSError):
            out.detach()
    return CommandResult(None, None)


@command(app, "init", make_store_call)
def init(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", dir_okay=False)] = Path(FILE),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> CommandResult:
    """Write a settings file that explains every setting."""
    if file.suffix not in (".yaml", ".yml"):
        raise InvalidInput(f"{file} does not end in .yaml, by which a settings file is known", remedy="name it so")
    if call.store is not None and Path(call.store).suffix in (".yaml", ".yml"):
        raise InvalidInput(
            f"--store {call.store} is a settings file and no store", remedy=f"write `everhold init {call.store}`"
        )
    text = resources.files("everhold.interfaces.cli").joinpath(FILE).read_text("utf-8")
    if call.store is not None:
        text = text.replace(f"storage: {Settings().storage}\n", f"storage: {json.dumps(call.store)}\n")
    with create_text(file, overwrite=overwrite) as out:  # only its owner may read it: an address may hold a password
        out.write(text)
    return CommandResult({"file": file}, show.render_text(f"wrote {file}; `everhold --help` lists what to do next"))


Place = "PATH|URL|FILE.yaml"


@command(app, "move", make_call_without_store)
def move(
    call: Call,
    source: Annotated[str, typer.Option("--from", metavar=Place, help="The store that is copied.")],
    target: Annotated[str, typer.Option("--to", metavar=Place, help="The empty store that it is copied into.")],
) -> CommandResult:
    """Copy a store into another and verify the copy."""
    for option, place in (("--from", source), ("--to", target)):
        if load_settings(place).storage.startswith("memory:"):
            raise InvalidInput(f"{option} {place} is gone when this command ends", remedy="name a store that lasts")
    with call.track_steps(explain_interrupted_move) as report:
        moved = Everhold.move(source, target, report)
    table = show.make_table("table", "rows", "hash, the same in both")
    for name, copied in moved.tables.items():
        if copied.rows:
            table.add_row(name, f"{copied.rows:,}", copied.hash[:16])
    document = {
        "copied": moved.copied,
        "rows": moved.rows,
        "tables": {name: table._asdict() for name, table in moved.tables.items()},
    }
    ending = show.render_text(f"copied {moved.copied:,} of {moved.rows:,} rows; every table is the same in both stores")
    return CommandResult(document, Group(table, ending))


@command(app, "version", make_store_call)
def version(call: Call) -> CommandResult:
    """Show the version."""
    return CommandResult({"version": __version__}, Text(f"everhold {__version__}"))


@command(model, "drop", make_store_call)
def drop_model(call: Call, name: Annotated[str, typer.Argument(metavar="MODEL")]) -> CommandResult:
    """Delete the vectors of an additional model."""
    call.engine.drop_model(name)
    return CommandResult({"dropped": name}, show.render_text(f"dropped {name}"))


@command(model, "install", make_store_call)
def install(call: Call) -> CommandResult:
    """Fetch and verify the default embedding model."""
    errors = Console(stderr=True, highlight=False, quiet=call.as_json)
    place = Everhold.install_model(errors.print, target=call.store)
    return CommandResult({"folder": place}, show.render_text(place))
