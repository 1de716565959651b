"""Commands on connected databases."""

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import ConnectedDatabase, TableChange
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.progress import show_steps
from everhold.interfaces.shared.times import format_local

app = typer.Typer()
_MAX_TEXT = 60
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@command(app, "connect", creates_store=True)
def connect(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the connection is called.")],
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="postgresql://…, mysql://…, sqlite:///FILE or duckdb:///FILE."),
    ] = None,
    url_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="The environment variable that holds the URL.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="NAME", help="The schema of PostgreSQL's tables, if not public.")
    ] = None,
) -> CommandResult:
    """Connect a database, and show its tables; questions then run there, read-only."""
    with show_steps(is_quiet=call.as_json) as report:
        database = call.view.connect(name, url, url_env=url_env, schema=schema, progress=report)
    return CommandResult(_make_document(database), _render_connected(database))


def _make_document(database: ConnectedDatabase) -> dict[str, Any]:
    return {
        "connection": database.connection,
        "is_new": database.is_new,
        "tables": [description.table for description in database.tables],
        "changes": list(database.changes),
        "notes": list(database.notes),
    }


def _render_connected(database: ConnectedDatabase) -> RenderableType:
    connection = database.connection
    heading = f"{connection.name}: {connection.address} · {connection.server}"
    table = show.make_table("table", "rows", "columns", "key", "refers to")
    for description in database.tables:
        keys = ", ".join(f"{key['column']} → {key['to_table']}" for key in description.table.foreign_keys)
        table.add_row(
            show.render_text(description.table.table_name),
            f"{description.table.row_count or 0:,}",
            show.render_text(", ".join(field.name for field in description.fields), _MAX_TEXT),
            show.render_text(", ".join(description.table.primary_key) or "–"),
            show.render_text(keys or "–", _MAX_TEXT),
        )
    changes = [show.render_text(_describe_change(change), style="yellow") for change in database.changes]
    notes = [show.render_text(f"note: {note}", style="yellow") for note in database.notes]
    return Group(show.render_text(heading, style="bold"), table, *changes, *notes)


def _describe_change(change: TableChange) -> str:
    columns = [*(f"+ {column}" for column in change.added), *(f"- {column}" for column in change.removed)]
    return f"{_SIGNS[change.kind]} {change.table} {change.kind}{': ' if columns else ''}{', '.join(columns)}"


@command(app, "connections")
def list_connections(call: Call) -> CommandResult:
    """Show the connected databases."""
    connections = call.view.connections()
    table = show.make_table("name", "kind", "address", "server", "tables read", "id")
    for connection in connections:
        table.add_row(
            show.render_text(connection.name),
            connection.kind,
            show.render_text(connection.address, _MAX_TEXT),
            show.render_text(connection.server),
            format_local(connection.refreshed_at, call.zone),
            connection.id,
        )
    hint = Text("no connections; `everhold connect NAME URL` adds one")
    return CommandResult({"connections": list(connections)}, table if connections else hint)


@command(app, "refresh-connection")
def refresh_connection(
    call: Call, name: Annotated[str, typer.Argument(metavar="NAME", help="The name or the id of a connection.")]
) -> CommandResult:
    """Read the tables of a connected database again, and show what has changed."""
    with show_steps(is_quiet=call.as_json) as report:
        database = call.view.refresh_connection(name, progress=report)
    return CommandResult(_make_document(database), _render_connected(database))


@command(app, "delete-connection")
def delete_connection(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name or the id of a connection.")],
    hard: Annotated[bool, typer.Option("--hard", help="Purge it.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Only count what would be deleted.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Restore it instead.")] = False,
) -> CommandResult:
    """Delete a connection with the descriptions of its tables; --restore brings it back."""
    if restore:
        connection = call.view.restore_connection(name)
        return CommandResult(connection, show.render_text(f"restored {connection.name}"))
    deleted = call.view.delete_connection(name, hard=hard, preview=preview)
    counts = ", ".join(f"{count:,} {table}" for table, count in deleted.rows.items()) or "nothing live"
    return CommandResult(deleted, show.render_text(f"{'would delete' if preview else 'deleted'} {counts}"))
