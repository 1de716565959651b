"""Commands on uploaded data: upload files, list and describe tables, find the one that a question is about."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import DescribedTable, FieldMetadata, UploadedFile
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.progress import show_steps
from everhold.interfaces.shared.times import format_local

app = typer.Typer()
_MAX_VALUES = 3
_MAX_TEXT = 60
_FIRST_BOUND = 5  # the place of the column "from"; "to" is next to it
_AMOUNTS = ("measure", "ratio", "currency")  # semantic types


@command(app, "upload", creates_store=True)
def upload(
    call: Call,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="CSV, Excel, JSON, Parquet or SQLite files.")],
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="Store the file under another name.")] = None,
) -> CommandResult:
    """Upload data files, and show what was detected in them."""
    with show_steps(is_quiet=call.as_json) as report:
        uploaded = call.view.upload(*files, name=name, progress=report)
    return CommandResult({"files": [_make_document(file) for file in uploaded]}, Group(*map(_render_file, uploaded)))


def _make_document(file: UploadedFile) -> dict[str, Any]:
    return {
        "source": file.source,
        "is_new": file.is_new,
        "details": dict(file.details),
        "notes": list(file.notes),
        "tables": [described_table.table for described_table in file.tables],
    }


def _render_file(file: UploadedFile) -> RenderableType:
    version = file.source.metadata.get("file_version", 1)
    state = f"version {version}" if file.is_new else "already there, nothing changed"
    parts: list[RenderableType] = [show.render_text(f"{file.source.name}: {state}", style="bold")]
    if file.details:
        parts.append(show.render_text(" · ".join(f"{name}: {value}" for name, value in sorted(file.details.items()))))
    table = show.make_table("table", "rows", "columns", "key", "refers to")
    for described_table in file.tables:
        keys = ", ".join(f"{key['column']} → {key['to_table']}" for key in described_table.table.foreign_keys)
        table.add_row(
            show.render_text(described_table.table.table_name),
            f"{described_table.table.row_count or 0:,}",
            show.render_text(", ".join(field.name for field in described_table.fields), _MAX_TEXT),
            show.render_text(", ".join(described_table.table.primary_key) or "–"),
            show.render_text(keys or "–", _MAX_TEXT),
        )
    return Group(*parts, table, *(show.render_text(f"note: {note}", style="yellow") for note in file.notes))


@command(app, "tables")
def list_tables(
    call: Call,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the tables of this file or connection.")
    ] = None,
    find: Annotated[str | None, typer.Option(metavar="QUESTION", help="Only those that a question is about.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 100,
) -> CommandResult:
    """Show the tables of files and databases; --find shows those that a question is about, best first."""
    if find is not None:
        return _find_tables(call, find, source, limit)
    tables = call.view.tables(source=source, limit=limit)
    output = show.make_table("table", "rows", "about")
    for table in tables:
        description = show.render_text(table.description or "", 2 * _MAX_TEXT)
        output.add_row(show.render_text(table.table_name), f"{table.row_count or 0:,}", description)
    return CommandResult({"tables": tables}, output if tables else Text("no tables; `everhold upload FILE` adds some"))


def _find_tables(call: Call, question: str, source: str | None, limit: int) -> CommandResult:
    hits = call.view.find_tables(question, source=source, limit=min(limit, 1000))
    output = show.make_table("table", "score", "from", "columns", "values")
    for hit in hits:
        output.add_row(
            show.render_text(hit.table.table_name),
            f"{hit.score:.2f}",
            show.render_text(hit.origin),
            show.render_text(", ".join(field.name for field in hit.fields), _MAX_TEXT),
            show.render_text(", ".join(value for _, value in hit.values), _MAX_TEXT),
        )
    documents = [
        {
            "table": hit.table,
            "source": hit.origin,
            "score": hit.score,
            "fields": [field.name for field in hit.fields],
            "values": [list(pair) for pair in hit.values],
        }
        for hit in hits
    ]
    return CommandResult({"tables": documents}, output if hits else Text("no table fits"))


@command(app, "describe")
def describe(
    call: Call,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The name or the id of a table.")],
    text: Annotated[str | None, typer.Option("--set", metavar="TEXT", help="Say what it is about.")] = None,
    field: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --set: the column that the text is about.")
    ] = None,
) -> CommandResult:
    """Show a table with its columns: types, ranges and frequent values; --set changes its description."""
    if text is not None:
        call.view.update_description(table, text, field=field)
    described_table = call.view.describe(table)
    return CommandResult(
        {"table": described_table.table, "fields": list(described_table.fields)}, _render_table(described_table)
    )


def _render_table(described_table: DescribedTable) -> RenderableType:
    table = described_table.table
    parts: list[RenderableType] = [
        show.render_text(f"{table.table_name} · {table.row_count or 0:,} rows", style="bold"),
        show.render_text(table.description or ""),
    ]
    columns = show.make_table("column", "type", "meaning", "distinct", "empty", "from", "to", "frequent")
    for column in columns.columns[_FIRST_BOUND : _FIRST_BOUND + 2]:
        column.no_wrap = True
    for field in described_table.fields:
        columns.add_row(
            show.render_text(field.name),
            field.data_type,
            show.render_text(", ".join(filter(None, (field.semantic_type, str(field.metadata.get("unit", "")))))),
            f"{field.distinct_count or 0:,}",
            f"{field.null_share or 0:.0%}",
            show.render_text(_write_bound(field, field.minimum)),
            show.render_text(_write_bound(field, field.maximum)),
            show.render_text(", ".join(_list_frequent(field)), _MAX_TEXT),
        )
    keys = [
        show.render_text(f"{key['column']} → {key['to_table']}.{key['to_column']} ({key['confidence']:.0%})")
        for key in table.foreign_keys
    ]
    return Group(*parts, columns, *keys)


def _list_frequent(field: FieldMetadata) -> Sequence[str]:
    frequent = [value_and_count[0] for value_and_count in field.metadata.get("top_values", ())] or field.sample_values
    return [_shorten(value) for value in frequent[:_MAX_VALUES]]


def _shorten(value: Any) -> str:
    text = "" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 20 else f"{text[:19]}…"


def _write_bound(field: FieldMetadata, value: Any) -> str:
    """Return the least or the greatest value of a column; those of amounts have separators, years and ids have none."""
    if field.semantic_type in _AMOUNTS and isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"
    return _shorten(value)


@command(app, "sources")
def list_sources(
    call: Call,
    every_version: Annotated[bool, typer.Option("--all", help="Also versions that were replaced.")] = False,
) -> CommandResult:
    """Show the uploaded files, the latest first."""
    sources = call.view.sources(every_version=every_version)
    table = show.make_table("file", "version", "uploaded", "bytes", "rows", "id")
    for source in sources:
        table.add_row(
            show.render_text(source.name),
            str(source.metadata.get("file_version", 1)),
            format_local(source.created_at, call.zone),
            f"{source.size:,}",
            f"{source.row_count or 0:,}",
            source.id,
        )
    return CommandResult({"sources": sources}, table if sources else Text("no files; `everhold upload FILE` adds some"))


@command(app, "delete-source")
def delete_source(
    call: Call,
    source: Annotated[str, typer.Argument(metavar="FILE", help="The name or the id of an uploaded file.")],
    hard: Annotated[bool, typer.Option("--hard", help="Purge it and delete its files.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Only count what would be deleted.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Restore it instead.")] = False,
) -> CommandResult:
    """Delete an uploaded file with its tables; --restore brings it back."""
    if restore:
        row = call.view.restore_source(source)
        return CommandResult(row, show.render_text(f"restored {row.name}"))
    deleted = call.view.delete_source(source, hard=hard, preview=preview)
    counts = ", ".join(f"{count:,} {table}" for table, count in deleted.rows.items()) or "nothing live"
    return CommandResult(deleted, show.render_text(f"{'would delete' if preview else 'deleted'} {counts}"))
