"""Commands on sessions and their messages."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.deleting import Hard, Preview, Yes, run_deletion
from everhold.interfaces.cli.groups import Object, Word
from everhold.interfaces.cli.inputs import read_texts
from everhold.interfaces.cli.memory_results import render_cursor
from everhold.interfaces.shared.inputs import parse_content, parse_list, parse_object
from everhold.interfaces.shared.times import format_local
from everhold.model import Message, Session
from everhold.schema.codec import encode_json

app = typer.Typer(help="Sessions and their messages; --session names one.")

ROLES = ("user", "assistant", "system", "tool")
_MAX_TEXT_LENGTH = 400


InConversation = Annotated[
    str | None, typer.Option(metavar="ID", help="Which conversation of the session; begins with it.")
]
Items = Annotated[str | None, typer.Option(metavar="JSON", help="A list, kept as it is.")]


def list_roles() -> list[str]:
    return list(ROLES)


def read_message_fields(
    call: Call,
    role: Annotated[str, typer.Option(metavar="ROLE", help="Who speaks.", autocompletion=list_roles)] = "user",
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name of the speaker.")] = None,
    model: Word = None,
    sender: Annotated[str | None, typer.Option(metavar="ID", help="Who of several speaks.")] = None,
    conversation: InConversation = None,
    own_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Your own id: a second call with it adds nothing.")
    ] = None,
    content: Annotated[str | None, typer.Option(metavar="JSON", help="Parts or an object, kept as it is.")] = None,
    tool_calls: Items = None,
    tool_call_id: Word = None,
    tool_returns: Items = None,
    references: Items = None,
    step_id: Word = None,
    otid: Annotated[str | None, typer.Option(metavar="ID", help="The id that a client gave it offline.")] = None,
    group_id: Word = None,
    created_at: Annotated[str | None, typer.Option(metavar="TIME", help="When it was said, for imports.")] = None,
    metadata: Object = None,
) -> dict[str, Any]:
    """Return the fields of a message that were passed."""
    list_options = {"tool_calls": tool_calls, "tool_returns": tool_returns, "references": references}
    plain_options = {"role": role, "name": name, "model": model, "sender_id": sender, "conversation": conversation,
              "id": own_id, "tool_call_id": tool_call_id, "step_id": step_id, "otid": otid, "group_id": group_id,
              "created_at": call.parse_moment("--created-at", created_at),
              "content": None if content is None else parse_content(content, "--content"),
              "metadata": None if metadata is None else parse_object(metadata, "--metadata")}  # fmt: skip
    return {
        **{field: value for field, value in plain_options.items() if value is not None},
        **{field: parse_list(text, f"--{field.replace('_', '-')}") for field, text in list_options.items() if text},
    }


@command(app, "say", creates_store=True, fields=read_message_fields)
def say(
    call: Call,
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT…", help="- reads lines of standard input.")] = None,
    *,
    fields: dict[str, Any],
) -> CommandResult:
    """Store messages in a session; the first one starts it."""
    said_texts = read_texts(texts) if texts else []
    if not said_texts and not any(fields.get(name) for name in ("content", "tool_calls", "tool_returns")):
        raise InvalidInput("there is nothing to say", remedy="give a text, or - and lines on standard input")
    if len(said_texts) > 1 and "id" in fields:
        raise InvalidInput(
            f"one --id is given for {len(said_texts)} messages", value=fields["id"], remedy="say one message at a time"
        )
    messages = [call.view.say(text, **fields) for text in said_texts or [""]]
    return CommandResult({"messages": messages}, make_messages_table(messages))


def read_session_fields(
    call: Call,
    title: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    session_type: Annotated[str | None, typer.Option("--type", metavar="WORD", help="Such as group.")] = None,
    context: Object = None,
    metadata: Object = None,
) -> dict[str, Any]:
    """Return the fields of a session that were passed."""
    plain_options = {"title": title, "topic": topic, "session_type": session_type}
    object_options = {"context": context, "metadata": metadata}
    return {
        **{name: value for name, value in plain_options.items() if value is not None},
        **{name: parse_object(text, f"--{name}") for name, text in object_options.items() if text is not None},
    }


@command(app, "open", creates_store=True, fields=read_session_fields)
def open_session(call: Call, *, fields: dict[str, Any]) -> CommandResult:
    """Start a session, or change one; without --user it is a group session."""
    session = call.view.open_session(**fields)
    return _show_changed(session, f"session {session.id} is open")


@command(app, "show")
def show_session(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="How many messages at once.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Begin with the first message.")] = False,
    around: Annotated[str | None, typer.Option(metavar="ID", help="The messages around this one.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation of it.")] = None,
) -> CommandResult:
    """Show the session and its last messages."""
    session = call.view.session().session
    page = call.view.messages(
        conversation=conversation, limit=limit, cursor=cursor, oldest_first=oldest_first, around=around
    )
    field_names = ("id", "user_id", "agent_id", "project_id", "title", "topic", "summary", "last_active", "ended_at")
    fields = {name: session.__dict__[name] for name in field_names}
    if session.context:
        fields["context"] = encode_json(session.context)
    ordered = page if oldest_first else page[::-1]
    parts: list[RenderableType] = [
        show.make_fields_table(fields, call.zone),
        Text(),
        make_messages_table(ordered),
    ]
    if page.cursor:
        parts.append(render_cursor(page.cursor))
    if page.back_cursor:
        option = "" if oldest_first else " --oldest-first"
        parts.append(Text(f"the other way: --cursor {page.back_cursor}{option}", style="dim"))
    document = {
        "session": session, "messages": page.messages, "cursor": page.cursor, "back_cursor": page.back_cursor
    }  # fmt: skip
    return CommandResult(document, Group(*parts))


@command(app, "list")
def list_sessions(call: Call, limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 50) -> CommandResult:
    """Show sessions, most recently active first."""
    sessions = call.view.sessions(limit=limit)
    table = show.make_table("session", "last active", "whose", "about")
    for session in sessions:
        owners = " · ".join(name for name in (session.user_id, session.agent_id, session.project_id) if name)
        description = session.topic or session.title or session.summary or ""
        state = " (archived)" if session.is_archived else " (ended)" if session.ended_at else ""
        table.add_row(
            show.render_text(session.id + state),
            format_local(session.last_active, call.zone),
            show.render_text(owners),
            show.render_text(description, 80),
        )
    output: RenderableType = table if sessions else Text("no sessions", style="dim")
    return CommandResult({"sessions": sessions}, output)


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
    output: RenderableType = table if rows else Text("no conversations", style="dim")
    return CommandResult({"conversations": rows}, output)


@command(app, "end")
def end(
    call: Call, summary: Annotated[str | None, typer.Option(metavar="TEXT", help="What it was about.")] = None
) -> CommandResult:
    """End a session; its messages can still be read."""
    session = call.view.end_session(summary=summary)
    return _show_changed(session, f"session {session.id} has ended")


@command(app, "reopen")
def reopen(call: Call) -> CommandResult:
    """Let an ended or archived session take messages again."""
    session = call.view.reopen_session()
    return _show_changed(session, f"session {session.id} is open")


@command(app, "archive")
def archive(call: Call) -> CommandResult:
    """End a session and mark it for cold storage, to which maintenance moves it."""
    session = call.view.archive_session()
    return _show_changed(session, f"session {session.id} is archived")


@command(app, "delete")
def delete(call: Call, hard: Hard = False, yes: Yes = False, preview: Preview = False) -> CommandResult:
    """Delete a session with its messages and memories. Shows what will be deleted and asks first."""
    return run_deletion(
        call.view.delete_session, f"session {call.scope.get('session')}", hard=hard, yes=yes, preview=preview
    )


@command(app, "restore")
def restore(call: Call) -> CommandResult:
    """Restore a deleted session."""
    session = call.view.restore_session()
    return _show_changed(session, f"restored session {session.id}")


def _show_changed(session: Session, sentence: str) -> CommandResult:
    return CommandResult({"session": session}, show.render_text(sentence))


def make_messages_table(messages: Iterable[Message], *, with_session: bool = False) -> RenderableType:
    """Return messages as a table: their position in the session, the role of the speaker, and the text."""
    table = show.make_table(*(["session"] if with_session else []), "#", "who", "said")
    for message in messages:
        text = message.text or encode_json(message.content or message.tool_calls or message.tool_returns)
        position = "" if message.position is None else str(message.position)
        table.add_row(
            *([show.render_text(message.session_id or "")] if with_session else []),
            position,
            show.render_text(message.name or message.sender_id or message.role),
            show.render_text(text, _MAX_TEXT_LENGTH),
        )
    return table
