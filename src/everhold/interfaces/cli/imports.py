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
RenameUser = Annotated[
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
    rename_user: RenameUser = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be imported.")] = False,
    quarantine: QuarantineFile = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing quarantine file.")] = False,
) -> CommandResult:
    """Import an export, the data of another system, a list of memories, or a text."""
    with call.track_steps(explain_interrupted_import) as report:
        result = call.engine.load(
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
    return CommandResult(_make_document(file, result), _show(file, result))


def _read_renaming(text: str) -> tuple[str, str]:
    old, equals, name = text.partition("=")
    if not equals or not old or not name:
        raise InvalidInput(f"--rename-user {text!r} names no two users", value=text, remedy="write OLD=NEW")
    return old, name


def _choose_quarantine(file: Path) -> Path:
    """Return the path of a new file beside the input.

    An existing file is not used: a user may be correcting its rows.
    """
    input_path = file.resolve()
    number = 1
    while True:
        suffix = ".quarantine.jsonl" if number == 1 else f".quarantine-{number}.jsonl"
        candidate = input_path.with_name(input_path.name + suffix)
        if not candidate.exists():
            return candidate
        number += 1


def _make_document(file: Path, result: ImportResult) -> dict[str, object]:
    document: dict[str, object] = {
        "file": file,
        "count": result.count,
        "added": result.added,
        "existing": result.existing,
        "skipped": result.skipped,
        "log_lines_skipped": result.log_lines,
        "embedded": result.embedded,
    }
    if result.source is not None:
        document |= {
            "source": result.source,
            "dry_run": result.is_dry_run,
            "mapped": result.mapped,
            "left_out": result.left_out,
            "quarantined": result.quarantined,
            "quarantine": result.quarantine,
            "faults": result.faults,
            "vectors_kept": result.vectors_kept,
            "vectors_replaced": result.vectors_replaced,
            "assumed_zone": result.assumed_zone,
        }
    return document


def _show(file: Path, result: ImportResult) -> RenderableType:
    if result.source is None:
        return show.render_text(f"imported {result.count:,} from {file}: {_describe_import(result)}")
    parts: list[RenderableType] = [_make_mapping_table(result)]
    parts += [
        show.render_text(f"left out: {left_out.rows:,} of {left_out.origin}: {left_out.reason}")
        for left_out in result.left_out
    ]
    if result.assumed_zone is not None:
        verb_phrase = "would be read" if result.is_dry_run else "were read"
        note = f"times without a zone {verb_phrase} as times in {result.assumed_zone}; --timezone names another"
        parts.append(show.render_text(note))
    if result.vectors_kept or result.vectors_replaced:
        note = f"{result.vectors_kept:,} embeddings kept, {result.vectors_replaced:,} of other models computed again"
        parts.append(show.render_text(note))
    parts += [
        show.render_text(f"not imported: {fault.place}: {fault.reason}", style="red")
        for fault in result.faults[:_SHOWN_FAULTS]
    ]
    if result.quarantined > _SHOWN_FAULTS:
        parts.append(Text(f"… and {result.quarantined - _SHOWN_FAULTS:,} more", style="red"))
    if result.quarantine is not None:
        remedy = f"they are in {result.quarantine}; correct them there and import that file"
        noun = "row was" if result.quarantined == 1 else "rows were"
        parts.append(show.render_text(f"{result.quarantined:,} {noun} not imported: {remedy}"))
    verb = "would import" if result.is_dry_run else "imported"
    counts = f"{result.added:,} rows" if result.is_dry_run else _describe_import(result)
    parts.append(show.render_text(f"{verb} {file} ({result.source}): {counts}"))
    return Group(*parts)


def _make_mapping_table(result: ImportResult) -> RenderableType:
    names = ("from", "becomes", "rows", "importable") if result.is_dry_run else ("from", "becomes", "rows", "added")
    table = show.make_table(*names, *([] if result.is_dry_run else ["already there"]), "not imported")
    for column in table.columns[2:]:
        column.justify = "right"
    for row in result.mapped:
        counts = [row.rows, row.added, *([] if result.is_dry_run else [row.existing]), row.quarantined]
        table.add_row(show.render_text(row.origin), row.becomes, *(f"{count:,}" for count in counts))
    return table


def _describe_import(result: ImportResult) -> str:
    counts = [f"{result.added:,} added", f"{result.existing:,} already there"]
    counts += [f"{result.skipped:,} skipped, because the store has another version"] if result.skipped else []
    counts += [f"{result.embedded:,} memories embedded"] if result.embedded else []
    counts += [f"{result.log_lines:,} log lines skipped"] if result.log_lines else []
    return ", ".join(counts)
