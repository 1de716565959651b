"""Commands on sessions: what is said in them, and which there are."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command
from everhold.interfaces.cli.groups import Object, Word
from everhold.interfaces.cli.inputs import texts_from
from everhold.interfaces.cli.memories import more
from everhold.interfaces.shared.inputs import parse_object
from everhold.interfaces.shared.times import local
from everhold.model import Message
from everhold.schema.codec import encode_json

app = typer.Typer(help="Sessions: what is said in a conversation; --session names it.")

ROLES = ("user", "assistant", "system", "tool")
_LONGEST = 400


def roles() -> list[str]:
    return list(ROLES)


@command(app, "say", begins=True)
def say(
    call: Call,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT…", help="- reads lines of standard input.")],
    role: Annotated[str, typer.Option(metavar="ROLE", help="Who speaks.", autocompletion=roles)] = "user",
    name: Word = None,
    model: Word = None,
    sender: Annotated[str | None, typer.Option(metavar="ID", help="Who of several speaks.")] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Which conversation of the session; begins with it.")
    ] = None,
    created_at: Annotated[str | None, typer.Option(metavar="TIME", help="When it was said, for imports.")] = None,
    metadata: Object = None,
) -> Outcome:
    """Keep what is said in the session, which begins with it."""
    said_at = call.parse_moment("--created-at", created_at)
    given: dict[str, Any] = {
        "role": role,
        "name": name,
        "model": model,
        "sender_id": sender,
        "conversation": conversation,
        "created_at": said_at,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    if metadata is not None:
        fields["metadata"] = parse_object(metadata, "--metadata")
    said = texts_from(texts)
    if not said:
        raise InvalidInput("there is nothing to say", remedy="give a text, or - and lines on standard input")
    kept = [call.view.say(text, **fields) for text in said]
    return Outcome({"messages": kept}, messages_table(kept))


@command(app, "show")
def show_session(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="How many messages at once.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the page before ended.")] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Begin with the first message.")] = False,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation of it.")] = None,
) -> Outcome:
    """Show the session and its last messages."""
    session = call.view.session().session
    page = call.view.messages(conversation=conversation, limit=limit, cursor=cursor, oldest_first=oldest_first)
    shown = ("id", "user_id", "agent_id", "project_id", "title", "topic", "summary", "last_active", "ended_at")
    fields = {name: session.__dict__[name] for name in shown}
    if session.context:
        fields["context"] = encode_json(session.context)
    in_order = page if oldest_first else page[::-1]
    parts: list[RenderableType] = [show.fields_table(fields, call.zone), Text(), messages_table(in_order)]
    if page.cursor:
        parts.append(more(page.cursor))
    return Outcome({"session": session, "messages": page.messages, "cursor": page.cursor}, Group(*parts))


@command(app, "list")
def list_sessions(call: Call, limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 50) -> Outcome:
    """Show sessions, the one last active first."""
    found = call.view.sessions(limit=limit)
    made = show.table("session", "last active", "whose", "about")
    for one in found:
        whose = " · ".join(name for name in (one.user_id, one.agent_id, one.project_id) if name)
        about = one.topic or one.title or one.summary or ""
        ended = " (ended)" if one.ended_at else ""
        made.add_row(
            show.plain(one.id + ended), local(one.last_active, call.zone), show.plain(whose), show.plain(about, 80)
        )
    shown: RenderableType = made if found else Text("no sessions", style="dim")
    return Outcome({"sessions": found}, shown)


@command(app, "conversations")
def list_conversations(call: Call, limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 50) -> Outcome:
    """Show the conversations of the session, the one started last first."""
    rows = call.view.conversations(limit=limit)
    table = show.table("conversation", "started", "name")
    for row in rows:
        table.add_row(show.plain(row.id), local(row.started_at, call.zone), show.plain(row.name or "", 80))
    shown: RenderableType = table if rows else Text("no conversations", style="dim")
    return Outcome({"conversations": rows}, shown)


@command(app, "end")
def end(call: Call) -> Outcome:
    """End the session: it can still be read, but nothing more be said in it."""
    session = call.view.end_session()
    return Outcome({"session": session}, show.plain(f"session {session.id} has ended"))


def messages_table(messages: Iterable[Message]) -> RenderableType:
    """Return messages as a table: their place in the session, who said them, and what."""
    grid = show.table("#", "who", "said")
    for one in messages:
        text = one.text or encode_json(one.content or one.tool_calls or one.tool_returns)
        position = "" if one.position is None else str(one.position)
        grid.add_row(position, show.plain(one.name or one.sender_id or one.role), show.plain(text, _LONGEST))
    return grid
