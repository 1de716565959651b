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

_MAX_SOURCES = 1000
_MAX_NAMED_SOURCES = 5

app = typer.Typer()
model = typer.Typer(help="The embedding model.")


@command(app, "log")
def log(
    call: Call,
    operation: Annotated[
        str | None, typer.Option(metavar="create|read|update|delete|search", help="Only lines of this operation.")
    ] = None,
    memory: Annotated[str | None, typer.Option(metavar="ID", help="Only lines about this memory.")] = None,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="Only lines of this time or later.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Only lines before this time.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="The maximum number of lines.", min=1)] = 100,
    verify: Annotated[bool, typer.Option("--verify", help="Check that no line was changed, removed or added.")] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Accept and sign the log as it is now, for example after a backup was restored."),
    ] = False,
) -> CommandResult:
    """Show the access log, newest first."""
    if verify or accept:
        organization = call.scope["organization"]
        return _render_verification(
            call.engine.accept_log(organization) if accept else call.engine.verify_log(organization)
        )
    lines = call.view.log(
        operation=operation,
        memory_id=None if memory is None else resolve_id(call, memory),
        after=call.parse_moment("--after", after, "ago"),
        before=call.parse_moment("--before", before, "ago"),
        limit=limit,
    )
    table = show.make_table("when", "did", "who", "what")
    for line in lines:
        actor = " ".join(name for name in (line.user_id, line.agent_id) if name) or "–"
        table.add_row(
            format_local(line.timestamp, call.zone), line.operation, show.render_text(actor), _describe_line(line)
        )
    output: RenderableType = table if lines else Text("no lines of the log match", style="dim")
    return CommandResult({"lines": lines}, output)


def _describe_line(line: AccessLog) -> Text:
    details = {name: value for name, value in line.request.items() if name != "memory"}
    parts = [str(line.request.get("memory") or line.memory_id or ""), *(f"{k} {v}" for k, v in details.items())]
    description = show.render_text(" · ".join(part for part in parts if part))
    if not line.success:
        description.append(f" failed: {line.error_message}", style="red")
    return description


def _render_verification(check: Verification) -> CommandResult:
    coverage = "checked without a key" if check.signed is None else f"signed up to line {check.signed:,}"
    if check.intact:
        text = Text(f"the log is intact: {check.lines:,} lines, {coverage}", style="green")
    else:
        position = "" if check.broken_at is None else f" at line {check.broken_at}"
        text = Text(f"the log is broken{position}: {check.reason}", style="bold red")
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
    names = _list_source_names(call, organization)
    note = [Text(_explain_left_out(names), style="yellow")] if names else []
    output = Group(show.render_text(f"exported {count:,} rows to {file}"), *note)
    return CommandResult({"file": file, "rows": count, "without_files": names}, output)


def _list_source_names(call: Call, organization: str) -> list[str]:
    return [source.name for source in call.engine.scope(organization=organization).sources(limit=_MAX_SOURCES)]


def _explain_left_out(names: Sequence[str]) -> str:
    """Return a sentence that lists the uploaded files whose data was left out of a bundle."""
    first_names = ", ".join(names[:_MAX_NAMED_SOURCES])
    omitted = len(names) - _MAX_NAMED_SOURCES
    listing = f"{first_names} and {omitted:,} others" if omitted > 0 else first_names
    return f"not in the bundle: the data of {listing}; upload the files again after the import, or use `everhold move`"


def _export_to_standard_output(call: Call, organization: str, decrypt: bool) -> CommandResult:
    """Write the export and nothing else to standard output."""
    if call.as_json:
        raise InvalidInput("export - and --json both write to standard output", remedy="leave out --json")
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n", write_through=True)
    try:
        # The bar and the rows would share the terminal if neither is redirected.
        with call.track_steps(partial(explain_interrupted_export, Path("-")), is_quiet=sys.stdout.isatty()) as report:
            call.engine.export(out, organization=organization, decrypt=decrypt, progress=report)
        if names := _list_source_names(call, organization):
            print(_explain_left_out(names), file=sys.stderr)
    except FileError:
        # Otherwise the interpreter writes the rest of the buffer when it exits, and prints the error of that attempt.
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
        raise InvalidInput(f"settings files must end in .yaml or .yml; got {str(file)!r}", remedy="rename the file")
    if call.store is not None and Path(call.store).suffix in (".yaml", ".yml"):
        raise InvalidInput(
            f"--store {call.store} is a settings file, not a store", remedy=f"write `everhold init {call.store}`"
        )
    text = resources.files("everhold.interfaces.cli").joinpath(FILE).read_text("utf-8")
    if call.store is not None:
        text = text.replace(f"storage: {Settings().storage}\n", f"storage: {json.dumps(call.store)}\n")
    with create_text(file, overwrite=overwrite) as out:  # readable by its owner only: an address may contain a password
        out.write(text)
    return CommandResult({"file": file}, show.render_text(f"wrote {file}; `everhold --help` lists what to do next"))


_STORE_METAVAR = "PATH|URL|FILE.yaml"


@command(app, "move", make_call_without_store)
def move(
    call: Call,
    source: Annotated[str, typer.Option("--from", metavar=_STORE_METAVAR, help="The store to copy.")],
    target: Annotated[str, typer.Option("--to", metavar=_STORE_METAVAR, help="The empty store to copy it into.")],
) -> CommandResult:
    """Copy a store into another and verify the copy."""
    for option, address in (("--from", source), ("--to", target)):
        if load_settings(address).storage.startswith("memory:"):
            raise InvalidInput(f"{option} {address} exists only while this command runs", remedy="name another store")
    with call.track_steps(explain_interrupted_move) as report:
        result = Everhold.move(source, target, report)
    table = show.make_table("table", "rows", "hash, the same in both")
    for name, copied in result.tables.items():
        if copied.rows:
            table.add_row(name, f"{copied.rows:,}", copied.hash[:16])
    document = {
        "copied": result.copied,
        "rows": result.rows,
        "tables": {name: table._asdict() for name, table in result.tables.items()},
    }
    summary = f"copied {result.copied:,} of {result.rows:,} rows; every table is the same in both stores"
    return CommandResult(document, Group(table, show.render_text(summary)))


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
    console = Console(stderr=True, highlight=False, quiet=call.as_json)
    folder = Everhold.install_model(console.print, target=call.store)
    return CommandResult({"folder": folder}, show.render_text(folder))
