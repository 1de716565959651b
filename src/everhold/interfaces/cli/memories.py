"""Commands on memories: keeping, finding and changing them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Memory
from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command
from everhold.interfaces.cli.groups import (
    ExpectedVersion,
    Included,
    Namespaces,
    identity,
    memory_fields,
    narrowing,
    suggest_kinds,
)
from everhold.interfaces.cli.ids import MemoryName, resolve_id
from everhold.interfaces.cli.inputs import texts_from
from everhold.interfaces.shared.documents import tagged
from everhold.interfaces.shared.times import local
from everhold.model.searchable import SEARCHABLE
from everhold.recall.hit import Hits
from everhold.recall.recipe import recipe_named

app = typer.Typer()

Among = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="What to search: memory, message. May be repeated.",
        autocompletion=lambda: list(SEARCHABLE),
    ),
]
_MOST_SHOWN = 50
_NOTHING_RELEVANT = f"{show.NOTHING_RELEVANT}; --minimum 0 shows the nearest"


@command(app, "remember", begins=True, fields=memory_fields, own=identity)
def remember(
    call: Call,
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT…", help="- reads lines of standard input.")] = None,
    *,
    fields: dict[str, Any],
    own: dict[str, Any],
) -> Outcome:
    """Keep one memory, or several."""
    items = [{"text": text, **fields, **own} for text in texts_from(texts or [])]
    if not texts and fields.get("content"):
        items = [{**fields, **own}]
    if not items:
        raise InvalidInput("there is nothing to remember", remedy="give a text, or - and lines on standard input")
    shared = [name for name in ("id", "key", "idempotency_key") if name in {**fields, **own}]
    if len(items) > 1 and shared:
        option = "--" + shared[0].replace("_", "-")
        raise InvalidInput(
            f"{option} names one memory, and there are {len(items)} texts", remedy="remember them one by one"
        )
    with call.progress("remembering", len(items)) as progress:
        kept = call.view.remember_many(items, progress=progress)
    return memories_outcome(call, kept, f"remembered {len(kept):,}" if len(kept) > 1 else "remembered")


def memories_outcome(
    call: Call, memories: Sequence[Memory], heading: str = "", *, empty: str = "no memories", numbered: bool = False
) -> Outcome:
    """Return memories with their tags; the table shows the first of very many, with numbers if `numbered`."""
    tags = call.view.tags_of([memory.id for memory in memories])
    parts: list[RenderableType] = [Text(heading, style="bold")] if heading else []
    rows = memories[:_MOST_SHOWN]
    parts.append(show.memories_table(rows, call.zone, tags, call.scope, empty=empty, numbered=numbered))
    if len(memories) > _MOST_SHOWN and heading:
        parts.append(Text(f"… and {len(memories) - _MOST_SHOWN:,} more; --json shows all", style="dim"))
    return Outcome({"memories": tagged(memories, tags)}, Group(*parts))


@command(app, "recall", narrowed=narrowing)
def recall(
    call: Call,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    k: Annotated[int, typer.Option("-k", metavar="1–1000", help="How many hits.")] = 10,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="As things were known then.")] = None,
    minimum: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="Nothing below this score; 0 switches the recipe's own off."),
    ] = None,
    include: Included = None,
    recipe: Annotated[str, typer.Option(metavar="NAME", help="hybrid, meaning or words.")] = "hybrid",
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Search by a model beside the first one.")] = None,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the hits before ended.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show why each hit is there, as a table.")] = False,
    include_superseded: Annotated[
        bool, typer.Option("--include-superseded", help="Search what was replaced, too.")
    ] = False,
    among: Among = None,
    namespace: Namespaces = None,
    *,
    narrowed: dict[str, Any],
) -> Outcome:  # fmt: skip
    """Find the memories, or the messages, that answer a question best."""
    moment = call.parse_moment("--as-of", as_of, "ago")
    where = {**narrowed, "among": among or "memory", "namespace": namespace or None, "include": include or ()}
    hits = call.view.recall(
        question, k=k, as_of=moment, minimum=minimum, recipe=recipe, cursor=cursor, model=model,
        include_superseded=include_superseded, **where,
    )  # fmt: skip
    empty = _NOTHING_RELEVANT if minimum or (minimum is None and recipe_named(recipe).minimum) else show.NOTHING_FOUND
    return _found(call, hits, empty + suggest_kinds(narrowed), explain=explain)


def _found(call: Call, hits: Hits, empty: str, *, explain: bool) -> Outcome:
    pinned = hits.pinned
    tags = call.view.tags_of([memory.id for memory in pinned]) if pinned else {}
    parts: list[RenderableType] = [show.hits_table(hits, call.zone, call.scope, empty=empty)]
    if explain and hits:
        parts += [Text(), show.why_table(hits, call.zone)]
    if hits.approximate:
        parts.append(Text("approximate: the scope is too large to be searched whole", style="dim"))
    if hits.cursor:
        parts.append(more(hits.cursor))
    if pinned:
        parts += [Text("\npinned", style="bold"), show.memories_table(pinned, call.zone, tags, call.scope)]
    found = {"hits": hits.hits, "pinned": tagged(pinned, tags), "cursor": hits.cursor, "approximate": hits.approximate}
    return Outcome(found, Group(*parts))


def more(cursor: str) -> Text:
    return Text(f"there is more: --cursor {cursor}", style="dim", overflow="fold")


@command(app, "get")
def get(call: Call, name: MemoryName) -> Outcome:
    """Show one memory with all its fields."""
    memory = call.view.get(resolve_id(call, name))
    tags = call.view.tags_of([memory.id])
    values = {"id": memory.id, "text": memory.text, "kind": memory.kind, "tags": tags.get(memory.id, ()),
              "priority": memory.priority, **memory.__dict__}  # fmt: skip
    return Outcome(tagged([memory], tags)[0], show.fields_table(values, call.zone))


@command(app, "list", narrowed=narrowing)
def list_memories(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="How many at once.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the page before ended.")] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Instead of the newest.")] = False,
    namespace: Namespaces = None,
    *,
    narrowed: dict[str, Any],
) -> Outcome:
    """Show memories, the newest first."""
    page = call.view.list(
        limit=limit, cursor=cursor, oldest_first=oldest_first, namespace=namespace or None, **narrowed
    )
    tags = call.view.tags_of([memory.id for memory in page])
    scope = " ".join(f"{name}={value}" for name, value in call.scope.items() if value)
    empty = f"no memories in scope {scope}{suggest_kinds(narrowed)}"
    parts: list[RenderableType] = [show.memories_table(page, call.zone, tags, call.scope, empty=empty)]
    if page.cursor:
        parts.append(more(page.cursor))
    return Outcome({"memories": tagged(page, tags), "cursor": page.cursor}, Group(*parts))


@command(app, "count", narrowed=narrowing)
def count(call: Call, *, narrowed: dict[str, Any]) -> Outcome:
    """Count memories."""
    number = call.view.count(**narrowed)
    return Outcome({"count": number}, show.plain(f"{number:,}"))


@command(app, "revise", fields=memory_fields)
def revise(
    call: Call,
    name: MemoryName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="What it says from now on.")] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
    expected_version: ExpectedVersion = None,
    *,
    fields: dict[str, Any],
) -> Outcome:
    """Change a memory; what it was is kept. A time of 'never' takes one away."""
    changes = fields if text is None else {"text": text, **fields}
    if not changes:
        raise InvalidInput("there is nothing to change", remedy="give a text or an option such as --priority")
    memory = call.view.revise(resolve_id(call, name), reason=reason, expected_version=expected_version, **changes)
    return memories_outcome(call, [memory], f"revision {memory.revision}")


@command(app, "supersede", fields=memory_fields, own=identity)
def supersede(
    call: Call,
    name: MemoryName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What holds from now on.")],
    expected_version: ExpectedVersion = None,
    *,
    fields: dict[str, Any],
    own: dict[str, Any],
) -> Outcome:
    """Put a memory in another's place."""
    replaced = resolve_id(call, name)
    memory = call.view.supersede(replaced, text, expected_version=expected_version, **fields, **own)
    return memories_outcome(call, [memory], f"instead of {replaced}")


@command(app, "history")
def history(call: Call, name: MemoryName) -> Outcome:
    """Show what a memory was before each change."""
    revisions = call.view.history(resolve_id(call, name))
    made = show.table("revision", "known", "reason", "text")
    for one in revisions:
        known = f"{local(one.known_from, call.zone)}\n{local(one.known_to, call.zone)}"
        made.add_row(str(one.revision), known, show.plain(one.reason or ""), show.plain(one.value.get("text", ""), 400))
    shown: RenderableType = made if revisions else Text(f"{name} was never changed", style="dim")
    return Outcome({"revisions": revisions}, shown)
