"""Commands on messages: add a conversation with its facts, search messages, delete and restore them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Message
from everhold.errors import InvalidInput
from everhold.interfaces.cli import memory_lists, show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import OnlySession, read_filters
from everhold.interfaces.cli.inputs import confirm, read_standard_input
from everhold.interfaces.cli.memory_results import render_cursor
from everhold.interfaces.cli.sessions import InConversation, make_messages_table
from everhold.interfaces.shared.inputs import parse_object
from everhold.interfaces.shared.times import format_local, parse_time

app = typer.Typer()  # for the command `add`, which belongs to no group
group = typer.Typer(help="Single messages of a session.")


def read_message_filters(
    call: Call,
    where: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=VALUE|JSON", help="Such as role=user; as in `recall`.")
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="At that time or later.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Before that time.")] = None,
    only: OnlySession = None,
) -> dict[str, Any]:
    """Return the filters that were passed, as keyword arguments of the verb."""
    return read_filters(call, where=where, after=after, before=before, only=only)


Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="The ids of messages.")]
_STANDARD_INPUT = "-"


@command(app, "add", creates_store=True)
def add(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="FILE", help="- reads standard input.")] = _STANDARD_INPUT,
    conversation: InConversation = None,
) -> CommandResult:
    """Store the messages of a conversation and the facts in them.

    Each line is a message in JSON, such as {"role": "assistant", "content": "Hello"}, or a text that the user says.
    """
    items: list[Any] = [_parse_line(call, number, line) for number, line in enumerate(_read_lines(file), 1)]
    if not items:
        raise InvalidInput("there are no messages to add", remedy="pass a file, or lines on standard input")
    result = call.view.add(items, conversation=conversation)
    parts = [
        make_messages_table(result.messages),
        Text(f"\n{len(result.memories) or 'no'} {'fact' if len(result.memories) == 1 else 'facts'}", style="bold"),
        memory_lists.make_memory_list(result.memories, call.zone, {}, call.scope, empty=""),
    ]
    return CommandResult({"messages": result.messages, "memories": result.memories}, Group(*parts))


def _read_lines(file: str) -> list[str]:
    if file == _STANDARD_INPUT:
        return read_standard_input()
    if not Path(file).is_file():
        raise InvalidInput(
            f"there is no file {file!r}", value=file, remedy="pass the path of a file, or - for standard input"
        )
    try:
        text = Path(file).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 at byte {error.start}", remedy="convert it with iconv") from None
    return [line.strip() for line in text.split("\n") if line.strip()]


def _parse_line(call: Call, number: int, line: str) -> str | dict[str, Any]:
    if not line.startswith("{"):
        return line
    fields = parse_object(line, f"message {number}")
    if isinstance(fields.get("created_at"), str):
        fields["created_at"] = parse_time(fields["created_at"], call.zone, "created_at")
    return fields


@command(group, "search", filters=read_message_filters)
def search(
    call: Call,
    query: Annotated[str, typer.Argument(metavar="QUESTION")],
    neighbours: Annotated[int, typer.Option(metavar="N", help="How many messages before and after each.")] = 2,
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many at most.")] = 10,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation.")] = None,
    minimum: Annotated[float | None, typer.Option(metavar="SCORE", help="The lowest score; 0 for any.")] = None,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    *,
    filters: dict[str, Any],
) -> CommandResult:
    """Find messages by words and meaning, each with what was said before and after it."""
    hits = call.view.search_messages(
        query, neighbours=neighbours, k=k, conversation=conversation, minimum=minimum, cursor=cursor, **filters
    )
    parts: list[RenderableType] = []
    for hit in hits:
        said_at = format_local(hit.message.created_at, call.zone)
        heading = f"{hit.score:.2f} · #{hit.message.position} of session {hit.message.session_id} · {said_at}"
        parts += [Text(heading, style="bold"), make_messages_table(hit.turns), Text()]
    if hits.cursor:
        parts.append(render_cursor(hits.cursor))
    output = Group(*parts) if hits else Text("no messages found", style="dim")
    return CommandResult({"hits": hits.hits, "cursor": hits.cursor}, output)


@command(group, "recent")
def recent(
    call: Call, limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many.")] = 10
) -> CommandResult:
    """Show the last messages of all sessions, newest first; --agent narrows them to an agent."""
    messages = call.view.recent_messages(n=limit)
    output = make_messages_table(messages, with_session=True) if messages else Text("no messages", style="dim")
    return CommandResult({"messages": messages}, output)


@command(group, "delete")
def delete(
    call: Call,
    names: Ids,
    hard: Annotated[bool, typer.Option("--hard", help="Purge them, and the memories derived only from them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> CommandResult:
    """Delete messages. With --hard it asks first."""
    phrase, pronoun = ("this message", "it") if len(names) == 1 else (f"these {len(names)} messages", "them")
    if hard and not yes and not confirm(f"Purge {phrase}, and the memories derived only from {pronoun}?"):
        return CommandResult({"messages": []}, Text("nothing was deleted"), 1)
    deleted = [call.view.delete_message(name, hard=hard) for name in dict.fromkeys(names)]
    result = _show_messages(deleted, "deleted")
    derived_memories = call.view.list(where={"provenance.message": [message.id for message in deleted]})
    if not derived_memories:
        return result
    ids = " ".join(memory.id for memory in derived_memories)
    note = show.render_text(f"memories drawn from them stay; `everhold forget {ids}` forgets these")
    derived_list = memory_lists.make_memory_list(derived_memories, call.zone, {}, call.scope)
    return CommandResult(
        {**result.document, "derived": derived_memories}, Group(result.output or Text(), note, derived_list)
    )


@command(group, "restore")
def restore(call: Call, names: Ids) -> CommandResult:
    """Restore messages that were deleted without --hard."""
    return _show_messages([call.view.restore_message(name) for name in dict.fromkeys(names)], "restored")


def _show_messages(messages: Iterable[Message], action: str) -> CommandResult:
    rows = list(messages)
    heading = Text(f"{len(rows)} {'message' if len(rows) == 1 else 'messages'} {action}", style="bold")
    return CommandResult({"messages": rows}, Group(heading, make_messages_table(rows)))
