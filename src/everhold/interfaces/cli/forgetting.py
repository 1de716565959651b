"""Commands that forget memories, and the command that undoes changes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from everhold import Memory, Message
from everhold.errors import InvalidInput, NotFound
from everhold.interfaces.cli import memory_lists, show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import ExpectedVersion, read_filters
from everhold.interfaces.cli.ids import OptionalMemoryName, resolve_id
from everhold.interfaces.cli.inputs import confirm
from everhold.interfaces.shared.documents import add_tags
from everhold.model import Change

app = typer.Typer()


@command(app, "forget", filters=read_filters)
def forget(
    call: Call,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="Ids or keys; without them, filter with the options.")
    ] = None,
    hard: Annotated[bool, typer.Option("--hard", help="Delete permanently; cannot be undone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be forgotten.")] = False,
    everything: Annotated[bool, typer.Option("--everything", help="Forget all memories of the scope.")] = False,
    with_messages: Annotated[
        bool, typer.Option("--with-messages", help="Also delete the messages they were extracted from.")
    ] = False,
    expected_version: ExpectedVersion = None,
    *,
    filters: dict[str, Any],
) -> CommandResult:
    """Forget memories by id or by filter, after a confirmation."""
    only = {"only": filters.pop("only")} if "only" in filters else {}
    names = [resolve_id(call, name) for name in names] if names else None
    _check_choice(names, filters, everything=everything)
    if expected_version is not None and len(names or []) != 1:
        raise InvalidInput("--expected-version is for one memory", remedy="name it by its id or key")
    if with_messages and not names:
        raise InvalidInput("--with-messages is for memories that are named", remedy="name them by their ids or keys")
    filters = {**({"everything": True} if everything else filters), **only}
    affected = _find_affected(call, names, filters, hard=hard)
    if preview or not affected.count:
        return _make_result(call, affected, "would be forgotten", preview=True)
    if not yes and not _ask_to_forget(call, affected, hard=hard):
        return _make_result(call, Affected(), "forgotten", code=1)
    if names and (hard or expected_version is not None):
        for name in dict.fromkeys(names):
            call.view.forget(name, hard=hard, expected_version=expected_version)
    else:  # forget all memories in one change, so that one undo restores all
        selection = {"where": {"id": [memory.id for memory in affected.memories]}} if names else filters
        with call.progress("forgetting", affected.count) as progress:
            forgotten = call.view.forget_where(**selection, hard=hard, progress=progress)
        affected = replace(affected, count=forgotten.count)
    if with_messages:
        affected = _delete_messages(call, affected, hard=hard)
    return _make_result(call, affected, "deleted permanently" if hard else "forgotten; `everhold undo` restores")


def _check_choice(names: Sequence[str] | None, filters: Mapping[str, Any], *, everything: bool) -> None:
    if sum(map(bool, (names, filters, everything))) != 1:
        raise InvalidInput(
            "forget takes either ids, or a filter, or --everything",
            remedy="name ids, or pass --kind, --tag, --where or --everything",
        )


@dataclass(frozen=True)
class Affected:
    """The memories that will be forgotten: the first few and their tags, the number of all, and the derived memories.

    Only a hard forget takes derived memories along.
    """

    memories: Sequence[Memory] = ()
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    count: int = 0
    derived: Sequence[Memory] = ()
    messages: Sequence[Message] = ()
    """The messages from which the first memories were derived. They are kept and still contain the same statements."""


def _delete_messages(call: Call, affected: Affected, *, hard: bool) -> Affected:
    for message_id in dict.fromkeys(name for memory in affected.memories for name in memory.message_ids):
        with suppress(NotFound):  # it may have been deleted before
            call.view.delete_message(message_id, hard=hard)
    return replace(affected, messages=())


def _find_affected(call: Call, names: Sequence[str] | None, filters: dict[str, Any], *, hard: bool) -> Affected:
    memories: Sequence[Memory] = ()
    if names:
        memories = _get_memories(call, names, hard=hard)
        filters = {"where": {"id": [memory.id for memory in memories]}}
    affected = call.view.forget_where(**filters, hard=hard, preview=True)
    if names:
        count = len(set(names))  # also those that are forgotten already, which a hard forget deletes
    else:
        memories, count = affected.memories, affected.count
    tags = call.view.tags_of([memory.id for memory in memories]) if memories else {}
    return Affected(memories, tags, count, affected.derived, affected.messages)


def _get_memories(call: Call, names: Sequence[str], *, hard: bool) -> Sequence[Memory]:
    memories = []
    for name in dict.fromkeys(names):
        try:
            memories.append(call.view.get(name))
        except NotFound:
            if not hard:  # a forgotten memory cannot be shown, but can still be deleted permanently
                raise
    return memories


def _ask_to_forget(call: Call, affected: Affected, *, hard: bool) -> bool:
    Console(stderr=True, highlight=False).print(_make_table(call, affected))
    memories = "this memory" if affected.count == 1 else f"these {affected.count:,} memories"
    memories += " and what was derived from it" if affected.derived else ""
    return confirm(f"Forget {memories}{' for good' if hard else ''}?")


def _make_result(call: Call, affected: Affected, action: str, *, preview: bool = False, code: int = 0) -> CommandResult:
    heading = Text(f"{affected.count or 'no'} {'memory' if affected.count == 1 else 'memories'} {action}", style="bold")
    document = {
        "count": affected.count,
        "memories": add_tags(affected.memories, affected.tags),
        "derived": [memory.id for memory in affected.derived],
        "messages": [message.id for message in affected.messages],
        "preview": preview,
    }
    return CommandResult(document, Group(heading, _make_table(call, affected)) if affected.memories else heading, code)


def _make_table(call: Call, affected: Affected) -> Group:
    hidden = affected.count - len(affected.memories)
    footer: list[RenderableType] = [Text(f"… and {hidden:,} more", style="dim")] if hidden else []
    if affected.derived:
        derived_list = memory_lists.make_memory_list(affected.derived, call.zone, {}, call.scope)
        footer += [Text("derived from these, and gone with them:"), derived_list]
    if affected.messages:
        ids = " ".join(message.id for message in affected.messages)
        footer.append(
            show.render_text(f"read from messages that still say it; `everhold messages delete {ids}` deletes them")
        )
    return Group(memory_lists.make_memory_list(affected.memories, call.zone, affected.tags, call.scope), *footer)


@command(app, "undo")
def undo(call: Call, name: OptionalMemoryName = None) -> CommandResult:
    """Undo the last revise, supersede, forget or merge."""
    change = call.view.undo(None if name is None else resolve_id(call, name))
    return CommandResult({"change": change}, render_undo(change))


def render_undo(change: Change) -> Text:
    return show.render_text(f"undone: {change.kind} of {', '.join(change.memory_ids)}")
