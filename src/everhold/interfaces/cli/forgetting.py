"""Commands that take memories away, and bring them back."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from everhold import Memory, Message
from everhold.errors import InvalidInput, NotFound
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command
from everhold.interfaces.cli.groups import ExpectedVersion, narrowing
from everhold.interfaces.cli.ids import OptionalMemoryName, resolve_id
from everhold.interfaces.cli.inputs import confirm
from everhold.interfaces.shared.documents import tagged
from everhold.model import Change

app = typer.Typer()


@command(app, "forget", narrowed=narrowing)
def forget(
    call: Call,
    names: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Or say which with the options.")] = None,
    hard: Annotated[bool, typer.Option("--hard", help="For good: it cannot be undone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would go.")] = False,
    everything: Annotated[
        bool, typer.Option("--everything", help="All memories of the scope; with --session, of the session.")
    ] = False,
    with_messages: Annotated[
        bool, typer.Option("--with-messages", help="Also delete the messages that they were drawn from.")
    ] = False,
    expected_version: ExpectedVersion = None,
    *,
    narrowed: dict[str, Any],
) -> Outcome:
    """Forget memories, by id or by filter. Shows them and asks first."""
    only = {"only": narrowed.pop("only")} if "only" in narrowed else {}
    names = [resolve_id(call, name) for name in names] if names else None
    _check_choice(names, narrowed, everything=everything)
    if expected_version is not None and len(names or []) != 1:
        raise InvalidInput("--expected-version is for one memory", remedy="name it by its id or key")
    if with_messages and not names:
        raise InvalidInput("--with-messages is for memories that are named", remedy="name them by their ids or keys")
    narrowed = {**(narrowed if not everything else {"everything": True}), **only}
    meant = _meant(call, names, narrowed, hard=hard)
    if preview or not meant.count:
        return _outcome(call, meant, "would be forgotten", preview=True)
    if not yes and not _agreed(call, meant, hard=hard):
        return _outcome(call, Meant(), "forgotten, as you wished", code=1)
    if names and (hard or expected_version is not None):
        for name in dict.fromkeys(names):
            call.view.forget(name, hard=hard, expected_version=expected_version)
    else:  # one change, and so one undo, for all of them
        wanted = {"where": {"id": [memory.id for memory in meant.memories]}} if names else narrowed
        with call.progress("forgetting", meant.count) as progress:
            gone = call.view.forget_where(**wanted, hard=hard, progress=progress)
        meant = replace(meant, count=gone.count)
    if with_messages:
        meant = _delete_messages(call, meant, hard=hard)
    return _outcome(call, meant, "forgotten for good" if hard else "forgotten; `everhold undo` takes that back")


def _check_choice(names: Sequence[str] | None, narrowed: Mapping[str, Any], *, everything: bool) -> None:
    if sum(map(bool, (names, narrowed, everything))) != 1:
        raise InvalidInput(
            "forget takes either ids, or a filter, or --everything",
            remedy="name ids, or pass --kind, --tag, --where or --everything",
        )


@dataclass(frozen=True)
class Meant:
    """The memories that are to go: the first of them, their tags, how many there are, and what was derived from them.

    Only a hard forget takes derived memories along.
    """

    memories: Sequence[Memory] = ()
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    count: int = 0
    derived: Sequence[Memory] = ()
    messages: Sequence[Message] = ()
    """The messages that the first memories were drawn from, which still say the same."""


def _delete_messages(call: Call, meant: Meant, *, hard: bool) -> Meant:
    for message_id in dict.fromkeys(name for memory in meant.memories for name in memory.message_ids):
        with suppress(NotFound):  # it may have been deleted before
            call.view.delete_message(message_id, hard=hard)
    return replace(meant, messages=())


def _meant(call: Call, names: Sequence[str] | None, narrowed: dict[str, Any], *, hard: bool) -> Meant:
    memories = _named(call, names, hard=hard) if names else []
    if names:
        narrowed = {"where": {"id": [memory.id for memory in memories]}}
    found = call.view.forget_where(**narrowed, hard=hard, preview=True)
    count, memories = (len(set(names)), memories) if names else (found.count, found.memories)
    tags = call.view.tags_of([memory.id for memory in memories]) if memories else {}
    return Meant(memories, tags, count, found.derived, found.messages)


def _named(call: Call, names: Sequence[str], *, hard: bool) -> Sequence[Memory]:
    memories = []
    for name in dict.fromkeys(names):
        try:
            memories.append(call.view.get(name))
        except NotFound:
            if not hard:  # one that is forgotten already cannot be shown, and can still be purged
                raise
    return memories


def _agreed(call: Call, meant: Meant, *, hard: bool) -> bool:
    Console(stderr=True, highlight=False).print(_table(call, meant))
    memories = "this memory" if meant.count == 1 else f"these {meant.count:,} memories"
    memories += " and what was derived from it" if meant.derived else ""
    return confirm(f"Forget {memories}{' for good' if hard else ''}?")


def _outcome(call: Call, meant: Meant, what: str, *, preview: bool = False, code: int = 0) -> Outcome:
    heading = Text(f"{meant.count or 'no'} {'memory' if meant.count == 1 else 'memories'} {what}", style="bold")
    found = {
        "count": meant.count,
        "memories": tagged(meant.memories, meant.tags),
        "derived": [memory.id for memory in meant.derived],
        "messages": [message.id for message in meant.messages],
        "preview": preview,
    }
    return Outcome(found, Group(heading, _table(call, meant)) if meant.memories else heading, code)


def _table(call: Call, meant: Meant) -> Group:
    hidden = meant.count - len(meant.memories)
    rest: list[RenderableType] = [Text(f"… and {hidden:,} more", style="dim")] if hidden else []
    if meant.derived:
        derived = show.memories_table(meant.derived, call.zone, {}, call.scope)
        rest += [Text("derived from these, and gone with them:"), derived]
    if meant.messages:
        ids = " ".join(message.id for message in meant.messages)
        rest.append(show.plain(f"read from messages that still say it; `everhold messages delete {ids}` deletes them"))
    return Group(show.memories_table(meant.memories, call.zone, meant.tags, call.scope), *rest)


@command(app, "undo")
def undo(call: Call, name: OptionalMemoryName = None) -> Outcome:
    """Take back the last revise, supersede or forget."""
    change = call.view.undo(None if name is None else resolve_id(call, name))
    return Outcome({"change": change}, undone(change))


def undone(change: Change) -> Text:
    return show.plain(f"undone: {change.kind} of {', '.join(change.memory_ids)}")
