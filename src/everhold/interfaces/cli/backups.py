"""Commands that back up, restore and verify."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import BackupResult, Everhold, Restored
from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call
from everhold.interfaces.cli.interrupts import (
    explain_interrupted_backup,
    explain_interrupted_restore,
    explain_interrupted_verification,
)
from everhold.interfaces.shared.times import format_local_with_zone

app = typer.Typer()

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A folder, or an fsspec address such as s3://bucket/path.")
]
_PANEL = "Retention"  # the heading of the next options in the help
KeepLast = Annotated[int | None, typer.Option(metavar="N", help="Keep the latest N backups.", rich_help_panel=_PANEL)]
KeepDays = Annotated[
    int | None,
    typer.Option(metavar="N", help="Keep the latest of each of the last N days.", rich_help_panel=_PANEL),
]
KeepWeeks = Annotated[
    int | None,
    typer.Option(metavar="N", help="Keep the latest of each of the last N weeks.", rich_help_panel=_PANEL),
]
KeepMonths = Annotated[
    int | None,
    typer.Option(metavar="N", help="Keep the latest of each of the last N months.", rich_help_panel=_PANEL),
]


@command(app, "backup", make_store_call)
def backup(
    call: Call,
    target: Target,
    keep_last: KeepLast = None,
    keep_days: KeepDays = None,
    keep_weeks: KeepWeeks = None,
    keep_months: KeepMonths = None,
    replace_state: Annotated[
        bool, typer.Option("--replace-state", help="If the file `state` is damaged, write it from the store.")
    ] = False,
) -> CommandResult:
    """Back up the store to a folder or an fsspec address; only what changed is stored."""
    if call.settings.storage.startswith("memory:"):
        raise InvalidInput("a store in memory is empty when this command opens it", remedy="call engine.backup()")
    if target.startswith("memory:"):
        raise InvalidInput(
            f"a backup at {target} would be lost when this command ends",
            value=target,
            remedy="name a folder or an address that lasts",
        )
    with call.track_steps(explain_interrupted_backup) as report:
        result = call.engine.backup(
            target,
            keep_last=keep_last,
            keep_days=keep_days,
            keep_weeks=keep_weeks,
            keep_months=keep_months,
            replace_state=replace_state,
            progress=report,
        )
    return CommandResult(result, _show_backup(result), 1 if result.missing_files else 0)


def _show_backup(result: BackupResult) -> RenderableType:
    extent = (
        "all rows" if result.is_full else f"{result.changed_rows:,} changed and {result.deleted_rows:,} deleted rows"
    )
    lines = [
        show.render_text(f"backup {result.id} at {result.target}"),
        show.render_text(f"{result.rows:,} rows and {result.files:,} files at sequence number {result.sequence:,}"),
        show.render_text(
            f"stored {extent}, {_format_size(result.bytes)}{', encrypted' if result.is_encrypted else ''}"
        ),
    ]
    if result.removed:
        lines.append(show.render_text(f"removed {len(result.removed)} old backups"))
    lines += [show.render_text(f"missing in the store: {name}", style="bold red") for name in result.missing_files]
    return Group(*lines)


@command(app, "backups", make_store_call)
def list_backups(
    call: Call,
    target: Target,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget the target: its backups are gone, and erasures need not reach it.")
    ] = False,
) -> CommandResult:
    """Show the backups at a folder or an address."""
    if forget:
        call.engine.forget_backups(target)
        return CommandResult({"forgotten": target}, show.render_text(f"forgot {target}; what is there was not deleted"))
    backups = Everhold.list_backups(target)
    table = show.make_table("backup", "time", "sequence", "rows", "files", "size")
    table.columns[0].no_wrap = True  # so that an id can be copied
    table.columns[1].min_width = len("2026-01-01")
    problems = [show.render_text(f"problem: {entry.problem}", style="bold red") for entry in backups if entry.problem]
    for entry in backups:
        if entry.problem:
            table.add_row(entry.id, "", "", "", "", show.render_text("damaged", style="bold red"))
            continue
        time_text = format_local_with_zone(entry.at, call.zone) if entry.at else ""
        size = f"{_format_size(entry.bytes)}{', encrypted' if entry.is_encrypted else ''}"
        table.add_row(entry.id, time_text, f"{entry.sequence:,}", f"{entry.rows:,}", f"{entry.files:,}", size)
    output = Group(table, *problems) if backups else show.render_text(f"no backups at {target}")
    return CommandResult({"backups": backups}, output, 1 if problems else 0)


@command(app, "restore", make_store_call)
def restore(
    call: Call,
    target: Target,
    backup: Annotated[str | None, typer.Argument(metavar="BACKUP", help="Default: the latest.")] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="Restore the state at a time between backups.")
    ] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", "--org", metavar="ID", help="Restore one organization only.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Restore one user only.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Add what is missing to a store in use.")] = False,
) -> CommandResult:
    """Restore a backup into the empty store that --store names. It may be of another kind."""
    if call.settings.storage.startswith("memory:"):
        raise InvalidInput("a store in memory is gone when this command ends", remedy="name a store that lasts")
    moment = call.parse_moment("--as-of", as_of)
    with call.track_steps(explain_interrupted_restore) as report:
        restored = Everhold.restore_backup(
            target,
            call.store,
            backup=backup,
            as_of=moment,
            organization=organization,
            user=user,
            add=add,
            progress=report,
        )
    return CommandResult({**restored.__dict__, "row_count": restored.row_count}, _show_restored(restored, call.zone))


def _show_restored(restored: Restored, zone: ZoneInfo) -> RenderableType:
    table = show.make_table("table", "rows")
    for name, count in restored.rows.items():
        table.add_row(name, f"{count:,}")
    reached_at = format_local_with_zone(restored.reached, zone)
    lines: list[RenderableType] = [
        table,
        show.render_text(f"restored {restored.row_count:,} rows and {restored.files:,} files of {restored.backup}"),
        show.render_text(f"the store is at {reached_at}, sequence number {restored.sequence:,} of the backup"),
    ]
    if restored.existing_rows:
        lines.append(
            show.render_text(f"{restored.existing_rows:,} rows were in the store already and stay as they are")
        )
    if restored.erased_rows:
        lines.append(show.render_text(f"{restored.erased_rows:,} rows of erased users were left out"))
    lines += [Text(note, style="yellow") for note in restored.notes]
    return Group(*lines)


@command(app, "verify", make_store_call)
def verify(
    call: Call,
    target: Target,
    backup: Annotated[str | None, typer.Argument(metavar="BACKUP", help="Default: the latest.")] = None,
) -> CommandResult:
    """Check a backup: read every file, restore it into a scratch store, compare."""
    with call.track_steps(explain_interrupted_verification) as report:
        result = Everhold.verify_backup(target, backup, store=call.store, progress=report)
    lines = [show.render_text(f"backup {result.id}: {result.objects:,} objects, {_format_size(result.bytes)}")]
    if result.intact:
        erased = f"; {result.erased_rows:,} rows of erased users cannot be read" if result.erased_rows else ""
        text = f"every checksum is right, and {result.rows:,} restored rows are those of the backup{erased}"
        lines.append(show.render_text(text, style="green"))
    lines += [show.render_text(f"problem: {problem}", style="bold red") for problem in result.problems]
    return CommandResult({**result.__dict__, "intact": result.intact}, Group(*lines), 0 if result.intact else 1)


def _format_size(size: int) -> str:
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
