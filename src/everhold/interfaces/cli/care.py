"""Commands on the store as a whole: its log, its health, and taking it out and in."""

import io
import json
import os
import sys
from collections.abc import Mapping
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
from everhold.exchange.loading import Loaded
from everhold.files import create_text
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command, on_store, without_store
from everhold.interfaces.cli.ids import resolve_id
from everhold.interfaces.cli.interrupts import explain_export, explain_import, explain_maintenance, explain_move
from everhold.interfaces.shared.times import local
from everhold.maintenance_jobs import JOBS
from everhold.model import AccessLog
from everhold.settings import FILE, Settings
from everhold.settings import load as load_settings

app = typer.Typer()
_JOBS = [job.name for job in JOBS]
model = typer.Typer(help="The embedding model.")


@command(app, "log")
def log(
    call: Call,
    operation: Annotated[str | None, typer.Option(metavar="create|read|update|delete|search")] = None,
    memory: Annotated[str | None, typer.Option(metavar="ID", help="Only about this memory.")] = None,
    after: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="The newest so many.", min=1)] = 100,
    verify: Annotated[bool, typer.Option("--verify", help="Check that no line was changed, removed or added.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Sign the log as it is now, after restoring a backup.")
    ] = False,
) -> Outcome:
    """Show who did what to which memory, the newest first."""
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
    made = show.table("when", "did", "who", "what")
    for line in lines:
        who = " ".join(one for one in (line.user_id, line.agent_id) if one) or "–"
        made.add_row(local(line.timestamp, call.zone), line.operation, show.plain(who), _what(line))
    shown: RenderableType = made if lines else Text("the log has no such lines", style="dim")
    return Outcome({"lines": lines}, shown)


def _what(line: AccessLog) -> Text:
    details = {name: value for name, value in line.request.items() if name != "memory"}
    parts = [str(line.request.get("memory") or line.memory_id or ""), *(f"{k} {v}" for k, v in details.items())]
    said = show.plain(" · ".join(part for part in parts if part))
    if not line.success:
        said.append(f" failed: {line.error_message}", style="red")
    return said


def _show_check(check: Verification) -> Outcome:
    how = "checked without a key" if check.signed is None else f"signed up to line {check.signed:,}"
    if check.intact:
        text = Text(f"the log is intact: {check.lines:,} lines, {how}", style="green")
    else:
        place = "" if check.broken_at is None else f" at line {check.broken_at}"
        text = Text(f"the log is broken{place}: {check.reason}", style="bold red")
    return Outcome(check, text, 0 if check.intact else 1)


@command(app, "doctor", on_store)
def doctor(call: Call) -> Outcome:
    """Show what the engine is made of, what it holds, and what is wrong."""
    report = call.engine.doctor()
    parts: list[RenderableType] = [show.fields_table(report.parts, call.zone), Text()]
    counts = show.table("holds", "rows")
    counts.columns[1].justify = "right"
    for name, count in report.counts.items():
        counts.add_row(name, f"{count:,}")
    parts += [counts, Text()]
    parts += [show.plain(f"problem: {problem}", style="bold red") for problem in report.problems]
    if not report.problems:
        parts.append(Text("no problems", style="green"))
    if not report.counts["organizations"]:  # the first write creates one
        parts.append(Text("this store is new and empty; if you expected data, name its store with --store"))
    return Outcome(report, Group(*parts), 1 if report.problems else 0)


Organization = Annotated[str, typer.Option("--org", metavar="ID", rich_help_panel="Where")]


@command(app, "export", on_store)
def export(
    call: Call,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", dir_okay=False, allow_dash=True, help="JSON lines; - is standard output.")
    ],
    organization: Organization = "default",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> Outcome:
    """Write everything of an organization to a file."""
    if str(file) == "-":
        return _export_to_standard_output(call, organization)
    with call.watch(partial(explain_export, file)) as report:
        count = call.engine.export(file, organization=organization, overwrite=overwrite, progress=report)
    return Outcome({"file": file, "rows": count}, show.plain(f"exported {count:,} rows to {file}"))


def _export_to_standard_output(call: Call, organization: str) -> Outcome:
    """Nothing else is written there, so that it can be piped on."""
    if call.as_json:
        raise InvalidInput(
            "export - writes the bundle to standard output, where --json writes, too", remedy="leave --json out"
        )
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n", write_through=True)
    try:
        # The bar and the rows would share the terminal if neither is redirected.
        with call.watch(partial(explain_export, Path("-")), is_quiet=sys.stdout.isatty()) as report:
            call.engine.export(out, organization=organization, progress=report)
    except FileError:
        # The interpreter would try to write the rest again when it ends, and report that instead.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
    finally:
        with suppress(OSError):
            out.detach()
    return Outcome(None, None)


@command(app, "import", on_store, begins=True)
def import_file(
    call: Call,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="A bundle, .jsonl or .json of memories, .txt or .md."
        ),
    ],
    organization: Annotated[
        str | None,
        typer.Option("--org", metavar="ID", help="Default: the bundle's own, or default.", rich_help_panel="Where"),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Whose the memories of a list or a text become.", rich_help_panel="Where"),
    ] = None,
) -> Outcome:
    """Bring in an export, a list of memories, or a text as many memories."""
    with call.watch(explain_import) as report:
        loaded = call.engine.load(file, organization=organization, user=user, progress=report)
    found = {
        "file": file,
        "count": loaded.count,
        "added": loaded.added,
        "already_there": loaded.there,
        "kept_as_in_store": loaded.kept,
        "log_lines_skipped": loaded.log_lines,
        "embedded": loaded.embedded,
    }
    return Outcome(found, show.plain(f"imported {loaded.count:,} from {file}: {_describe_loaded(loaded)}"))


def _describe_loaded(loaded: Loaded) -> str:
    said = [f"{loaded.added:,} added", f"{loaded.there:,} already there"]
    said += [f"{loaded.kept:,} kept as in the store"] if loaded.kept else []
    said += [f"{loaded.embedded:,} memories embedded"] if loaded.embedded else []
    return ", ".join([*said, f"{loaded.log_lines:,} log lines skipped"] if loaded.log_lines else said)


@command(app, "init", on_store)
def init(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", dir_okay=False)] = Path(FILE),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> Outcome:
    """Write a settings file that names every setting, each with what it means."""
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
    return Outcome({"file": file}, show.plain(f"wrote {file}; `everhold --help` lists what to do next"))


Place = "PATH|URL|FILE.yaml"


@command(app, "move", without_store)
def move(
    call: Call,
    source: Annotated[str, typer.Option("--from", metavar=Place, help="The store that is copied.")],
    target: Annotated[str, typer.Option("--to", metavar=Place, help="The empty store that it is copied into.")],
) -> Outcome:
    """Copy everything from one store into another, and prove that both hold the same."""
    for option, place in (("--from", source), ("--to", target)):
        if load_settings(place).storage.startswith("memory:"):
            raise InvalidInput(f"{option} {place} is gone when this command ends", remedy="name a store that lasts")
    with call.watch(explain_move) as report:
        moved = Everhold.move(source, target, report)
    made = show.table("table", "rows", "hash, the same in both")
    for name, table in moved.tables.items():
        if table.rows:
            made.add_row(name, f"{table.rows:,}", table.hash[:16])
    document = {
        "copied": moved.copied,
        "rows": moved.rows,
        "tables": {name: table._asdict() for name, table in moved.tables.items()},
    }
    ending = show.plain(f"copied {moved.copied:,} of {moved.rows:,} rows; every table is the same in both stores")
    return Outcome(document, Group(made, ending))


@command(app, "maintain", on_store)
def maintain(
    call: Call,
    job: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Run only this job; repeat it for several: {', '.join(_JOBS)}."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what each job would do.")] = False,
) -> Outcome:
    """Run the maintenance jobs: seal the log, purge what has expired, give space back, and others."""
    with call.watch(explain_maintenance) as show_progress:
        report = call.engine.maintain(job, dry_run=dry_run, progress=show_progress)
    jobs = show.table("job", "outcome", "would do" if dry_run else "did", "left", "seconds")
    for done in report.jobs:
        counts, left = _describe_counts(done.counts), _describe_counts(done.left)
        jobs.add_row(done.name, done.outcome, counts, left, f"{done.seconds:.1f}")
    errors = [show.plain(f"{failed.name} failed: {failed.error}", style="bold red") for failed in report.failed]
    return Outcome(report, Group(jobs, *errors), 1 if report.failed else 0)


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items()) or "–"


@command(app, "version", on_store)
def version(call: Call) -> Outcome:
    """Show the version."""
    return Outcome({"version": __version__}, Text(f"everhold {__version__}"))


@command(model, "drop", on_store)
def drop_model(call: Call, name: Annotated[str, typer.Argument(metavar="MODEL")]) -> Outcome:
    """Delete the vectors of a model that was kept beside the first one."""
    call.engine.drop_model(name)
    return Outcome({"dropped": name}, show.plain(f"dropped {name}"))


@command(model, "install", on_store)
def install(call: Call) -> Outcome:
    """Fetch and verify the default embedding model."""
    errors = Console(stderr=True, highlight=False, quiet=call.as_json)
    place = Everhold.install_model(errors.print, target=call.store)
    return Outcome({"folder": place}, show.plain(place))
