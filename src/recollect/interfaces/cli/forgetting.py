"""Commands that take memories away, and bring them back."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.text import Text

from recollect import Memory
from recollect.errors import InvalidInput, NotFound
from recollect.interfaces.cli import show
from recollect.interfaces.cli.call import Call, Outcome, command
from recollect.interfaces.cli.documents import tagged
from recollect.interfaces.cli.groups import narrowing
from recollect.interfaces.cli.inputs import confirm
from recollect.model import Change

app = typer.Typer()


@command(app, "forget", narrowed=narrowing)
def forget(
    call: Call,
    names: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Or say which with the options.")] = None,
    hard: Annotated[bool, typer.Option("--hard", help="For good: it cannot be undone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would go.")] = False,
    *,
    narrowed: dict[str, Any],
) -> Outcome:
    """Forget memories, by id or by filter. Shows them and asks first."""
    if bool(names) == bool(narrowed):
        raise InvalidInput("say which memories to forget: either ids, or a filter such as --kind, --tag or --where")
    shown, count = _meant(call, names, narrowed, hard=hard)
    if preview or not count:
        return _outcome(call, shown, count, "would be forgotten", preview=True)
    if not yes and not _agreed(call, shown, count, hard=hard):
        return _outcome(call, [], 0, "forgotten, as you wished", code=1)
    if names and hard:
        shown = [call.view.forget(name, hard=True) for name in dict.fromkeys(names)]
    else:  # one change, and so one undo, for all of them
        wanted = {"where": {"id": [memory.id for memory in shown]}} if names else narrowed
        with call.progress("forgetting", count) as progress:
            count = call.view.forget_where(**wanted, hard=hard, progress=progress).count
    return _outcome(call, shown, count, "forgotten for good" if hard else "forgotten; `recollect undo` takes that back")


def _meant(
    call: Call, names: Sequence[str] | None, narrowed: dict[str, Any], *, hard: bool
) -> tuple[Sequence[Memory], int]:
    """The first of the memories that would go, and how many those are."""
    if not names:
        found = call.view.forget_where(**narrowed, preview=True)
        return found.memories, found.count
    memories = []
    for name in dict.fromkeys(names):
        try:
            memories.append(call.view.get(name))
        except NotFound:
            if not hard:  # one that is forgotten already cannot be shown, and can still be purged
                raise
    return memories, len(set(names))


def _agreed(call: Call, shown: Sequence[Memory], count: int, *, hard: bool) -> bool:
    Console(stderr=True, highlight=False).print(_table(call, shown, count))
    memories = "this memory" if count == 1 else f"these {count:,} memories"
    return confirm(f"Forget {memories}{' for good' if hard else ''}?")


def _outcome(
    call: Call, shown: Sequence[Memory], count: int, what: str, *, preview: bool = False, code: int = 0
) -> Outcome:
    heading = Text(f"{count or 'no'} {'memory' if count == 1 else 'memories'} {what}", style="bold")
    tags = call.view.tags_of([memory.id for memory in shown])
    found = {"count": count, "memories": tagged(shown, tags), "preview": preview}
    return Outcome(found, Group(heading, _table(call, shown, count)) if shown else heading, code)


def _table(call: Call, shown: Sequence[Memory], count: int) -> Group:
    tags = call.view.tags_of([memory.id for memory in shown])
    rest = [Text(f"… and {count - len(shown):,} more", style="dim")] if count > len(shown) else []
    return Group(show.memories_table(shown, call.zone, tags), *rest)


@command(app, "undo")
def undo(call: Call, name: Annotated[str | None, typer.Argument(metavar="ID")] = None) -> Outcome:
    """Take back the last revise, supersede or forget."""
    change = call.view.undo(name)
    return Outcome({"change": change}, undone(change))


def undone(change: Change) -> Text:
    return show.plain(f"undone: {change.kind} of {', '.join(change.memory_ids)}")
