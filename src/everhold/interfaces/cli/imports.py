"""The command that imports exports of Everhold, data of other systems, lists of memories, and texts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import ImportResult
from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call
from everhold.interfaces.cli.interrupts import explain_interrupted_import

app = typer.Typer()

_SHOWN_FAULTS = 5


PathArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        exists=True,
        help="A bundle, a file or folder of another system, .jsonl or .json of memories, .txt or .md.",
    ),
]
Organization = Annotated[
    str | None,
    typer.Option(
        "--org",
        metavar="ID",
        help="Import into this organization. Default: the organization of the bundle, or `default`.",
        rich_help_panel="Store and scope",
    ),
]
User = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Give the memories and sessions to this user.", rich_help_panel="Store and scope"),
]
System = Annotated[
    str | None, typer.Option("--from", metavar="SYSTEM", help="The system. Default: recognised by the content.")
]
Zone = Annotated[str | None, typer.Option(metavar="ZONE", help="The zone of times without one.")]
Order = Annotated[str | None, typer.Option(metavar="ORDER", help="dmy, mdy or ymd: that of dates such as 03/04/2024.")]
Renamed = Annotated[
    list[str] | None, typer.Option(metavar="OLD=NEW", help="Import the data of user OLD as data of user NEW.")
]
QuarantineFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", dir_okay=False, help="For rows that are not imported. Default: PATH.quarantine.jsonl."
    ),
]


@command(app, "import", make_store_call, creates_store=True)
def import_file(
    call: Call,
    file: PathArgument,
    organization: Organization = None,
    user: User = None,
    source: System = None,
    timezone: Zone = None,
    date_order: Order = None,
    rename_user: Renamed = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be imported.")] = False,
    quarantine: QuarantineFile = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing quarantine file.")] = False,
) -> CommandResult:
    """Import an export, the data of another system, a list of memories, or a text."""
    with call.track_steps(explain_interrupted_import) as report:
        loaded = call.engine.load(
            file,
            organization=organization,
            user=user,
            source=source,
            timezone=timezone,
            date_order=date_order,
            users=dict(map(_read_renaming, rename_user or [])),
            dry_run=dry_run,
            quarantine=None if dry_run else quarantine or _choose_quarantine(file),
            overwrite=overwrite,
            progress=report,
        )
    return CommandResult(_make_document(file, loaded), _show(file, loaded))


def _read_renaming(text: str) -> tuple[str, str]:
    old, equals, name = text.partition("=")
    if not equals or not old or not name:
        raise InvalidInput(f"--rename-user {text!r} names no two users", value=text, remedy="write OLD=NEW")
    return old, name


def _choose_quarantine(file: Path) -> Path:
    """Return the path of a new file beside the input.

    An existing file is not used: a user may be correcting its rows.
    """
    resolved = file.resolve()
    number = 1
    while True:
        suffix = ".quarantine.jsonl" if number == 1 else f".quarantine-{number}.jsonl"
        candidate = resolved.with_name(resolved.name + suffix)
        if not candidate.exists():
            return candidate
        number += 1


def _make_document(file: Path, loaded: ImportResult) -> dict[str, object]:
    document: dict[str, object] = {
        "file": file,
        "count": loaded.count,
        "added": loaded.added,
        "existing": loaded.existing,
        "skipped": loaded.skipped,
        "log_lines_skipped": loaded.log_lines,
        "embedded": loaded.embedded,
    }
    if loaded.source is not None:
        document |= {
            "source": loaded.source,
            "dry_run": loaded.is_dry_run,
            "mapped": loaded.mapped,
            "left_out": loaded.left_out,
            "quarantined": loaded.quarantined,
            "quarantine": loaded.quarantine,
            "faults": loaded.faults,
            "vectors_kept": loaded.vectors_kept,
            "vectors_replaced": loaded.vectors_replaced,
            "assumed_zone": loaded.assumed_zone,
        }
    return document


def _show(file: Path, loaded: ImportResult) -> RenderableType:
    if loaded.source is None:
        return show.render_text(f"imported {loaded.count:,} from {file}: {_describe_import(loaded)}")
    parts: list[RenderableType] = [_make_mapping_table(loaded)]
    parts += [
        show.render_text(f"left out: {left_out.rows:,} of {left_out.origin}: {left_out.reason}")
        for left_out in loaded.left_out
    ]
    if loaded.assumed_zone is not None:
        verb_phrase = "would be read" if loaded.is_dry_run else "were read"
        note = f"times without a zone {verb_phrase} as times in {loaded.assumed_zone}; --timezone names another"
        parts.append(show.render_text(note))
    if loaded.vectors_kept or loaded.vectors_replaced:
        note = f"{loaded.vectors_kept:,} embeddings kept, {loaded.vectors_replaced:,} of other models computed again"
        parts.append(show.render_text(note))
    parts += [
        show.render_text(f"not imported: {fault.place}: {fault.reason}", style="red")
        for fault in loaded.faults[:_SHOWN_FAULTS]
    ]
    if loaded.quarantined > _SHOWN_FAULTS:
        parts.append(Text(f"… and {loaded.quarantined - _SHOWN_FAULTS:,} more", style="red"))
    if loaded.quarantine is not None:
        remedy = f"they are in {loaded.quarantine}; correct them there and import that file"
        noun = "row was" if loaded.quarantined == 1 else "rows were"
        parts.append(show.render_text(f"{loaded.quarantined:,} {noun} not imported: {remedy}"))
    verb = "would import" if loaded.is_dry_run else "imported"
    counts = f"{loaded.added:,} rows" if loaded.is_dry_run else _describe_import(loaded)
    parts.append(show.render_text(f"{verb} {file} ({loaded.source}): {counts}"))
    return Group(*parts)


def _make_mapping_table(loaded: ImportResult) -> RenderableType:
    names = ("from", "becomes", "rows", "importable") if loaded.is_dry_run else ("from", "becomes", "rows", "added")
    table = show.make_table(*names, *([] if loaded.is_dry_run else ["already there"]), "not imported")
    for column in table.columns[2:]:
        column.justify = "right"
    for row in loaded.mapped:
        counts = [row.rows, row.added, *([] if loaded.is_dry_run else [row.existing]), row.quarantined]
        table.add_row(show.render_text(row.origin), row.becomes, *(f"{count:,}" for count in counts))
    return table


def _describe_import(loaded: ImportResult) -> str:
    counts = [f"{loaded.added:,} added", f"{loaded.existing:,} already there"]
    counts += [f"{loaded.skipped:,} skipped, because the store has another version"] if loaded.skipped else []
    counts += [f"{loaded.embedded:,} memories embedded"] if loaded.embedded else []
    return ", ".join([*counts, f"{loaded.log_lines:,} log lines skipped"] if loaded.log_lines else counts)
