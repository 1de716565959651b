"""Commands on sessions and their messages."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import Object, Word
from everhold.interfaces.cli.inputs import read_texts
from everhold.interfaces.cli.memories import render_cursor
from everhold.interfaces.shared.inputs import parse_object
from everhold.interfaces.shared.times import format_local
from everhold.model import Message
from everhold.schema.codec import encode_json

app = typer.Typer(help="Sessions and their messages; --session names one.")

ROLES = ("user", "assistant", "system", "tool")
_MAX_TEXT_LENGTH = 400


def list_roles() -> list[str]:
    return list(ROLES)


@command(app, "say", creates_store=True)
def say(
    call: Call,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT…", help="- reads lines of standard input.")],
    role: Annotated[str, typer.Option(metavar="ROLE", help="Who speaks.", autocompletion=list_roles)] = "user",
    name: Word = None,
    model: Word = None,
    sender: Annotated[str | None, typer.Option(metavar="ID", help="Who of several speaks.")] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Which conversation of the session; begins with it.")
    ] = None,
    created_at: Annotated[str | None, typer.Option(metavar="TIME", help="When it was said, for imports.")] = None,
    metadata: Object = None,
) -> CommandResult:
    """Store messages in a session; the first one starts it."""
    said_at = call.parse_moment("--created-at", created_at)
    options: dict[str, Any] = {
        "role": role,
        "name": name,
        "model": model,
        "sender_id": sender,
        "conversation": conversation,
        "created_at": said_at,
    }
    fields = {name: value for name, value in options.items() if value is not None}
    if metadata is not None:
        fields["metadata"] = parse_object(metadata, "--metadata")
    spoken = read_texts(texts)
    if not spoken:
        raise InvalidInput("there is nothing to say", remedy="give a text, or - and lines on standard input")
    messages = [call.view.say(text, **fields) for text in spoken]
    return CommandResult({"messages": messages}, make_messages_table(messages))


@command(app, "show")
def show_session(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="How many messages at once.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Begin with the first message.")] = False,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation of it.")] = None,
) -> CommandResult:
    """Show the session and its last messages."""
    session = call.view.session().session
    page = call.view.messages(conversation=conversation, limit=limit, cursor=cursor, oldest_first=oldest_first)
    shown = ("id", "user_id", "agent_id", "project_id", "title", "topic", "summary", "last_active", "ended_at")
    fields = {name: session.__dict__[name] for name in shown}
    if session.context:
        fields["context"] = encode_json(session.context)
    in_order = page if oldest_first else page[::-1]
    parts: list[RenderableType] = [show.make_fields_table(fields, call.zone), Text(), make_messages_table(in_order)]
    if page.cursor:
        parts.append(render_cursor(page.cursor))
    return CommandResult({"session": session, "messages": page.messages, "cursor": page.cursor}, Group(*parts))


@command(app, "list")
def list_sessions(call: Call, limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 50) -> CommandResult:
    """Show sessions, most recently active first."""
    sessions = call.view.sessions(limit=limit)
    table = show.make_table("session", "last active", "whose", "about")
    for session in sessions:
        whose = " · ".join(name for name in (session.user_id, session.agent_id, session.project_id) if name)
        about = session.topic or session.title or session.summary or ""
        ended = " (ended)" if session.ended_at else ""
        table.add_row(
            show.render_text(session.id + ended),
            format_local(session.last_active, call.zone),
            show.render_text(whose),
            show.render_text(about, 80),
        )
    shown: RenderableType = table if sessions else Text("no sessions", style="dim")
    return CommandResult({"sessions": sessions}, shown)


@command(app, "conversations")
def list_conversations(
    call: Call, limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 50
) -> CommandResult:
    """Show the conversations of a session, newest first."""
    rows = call.view.conversations(limit=limit)
    table = show.make_table("conversation", "started", "name")
    for row in rows:
        table.add_row(
            show.render_text(row.id), format_local(row.started_at, call.zone), show.render_text(row.name or "", 80)
        )
    shown: RenderableType = table if rows else Text("no conversations", style="dim")
    return CommandResult({"conversations": rows}, shown)


@command(app, "end")
def end(call: Call) -> CommandResult:
    """End a session; its messages can still be read."""
    session = call.view.end_session()
    return CommandResult({"session": session}, show.render_text(f"session {session.id} has ended"))


def make_messages_table(messages: Iterable[Message]) -> RenderableType:
    """Return messages as a table: their place in the session, who said them, and what."""
    grid = show.make_table("#", "who", "said")
    for message in messages:
        text = message.text or encode_json(message.content or message.tool_calls or message.tool_returns)
        position = "" if message.position is None else str(message.position)
        grid.add_row(
            position,
            show.render_text(message.name or message.sender_id or message.role),
            show.render_text(text, _MAX_TEXT_LENGTH),
        )
    return grid
