"""Commands on memories: store, find and change them."""

from typing import Annotated, Any

import typer

from everhold.errors import InvalidInput
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import (
    ExpectedVersion,
    Included,
    Namespaces,
    Superseded,
    read_filters,
    read_identity,
    read_memory_fields,
    suggest_kinds,
)
from everhold.interfaces.cli.ids import MemoryName, resolve_id
from everhold.interfaces.cli.inputs import read_texts

app = typer.Typer()


def _list_searchable_kinds() -> list[str]:
    from everhold.model.searchable import SEARCHABLE  # a search imports it while the embedding model loads

    return list(SEARCHABLE)


Among = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="What to search: memory or message. Repeat it for both.",
        autocompletion=_list_searchable_kinds,
    ),
]


@command(app, "remember", creates_store=True, fields=read_memory_fields, identity=read_identity)
def remember(
    call: Call,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT…", help="The texts; - reads one from each line of standard input."),
    ] = None,
    *,
    fields: dict[str, Any],
    identity: dict[str, Any],
) -> CommandResult:
    """Store one or more memories."""
    items: list[Any] = [{"text": text, **fields, **identity} for text in read_texts(texts or [])]
    if not texts and fields.get("content"):
        items = [{**fields, **identity}]
    if not items:
        raise InvalidInput("there is nothing to remember", remedy="give a text, or - and lines on standard input")
    single_memory_fields = [name for name in ("id", "key", "idempotency_key") if name in {**fields, **identity}]
    if len(items) > 1 and single_memory_fields:
        option = "--" + single_memory_fields[0].replace("_", "-")
        raise InvalidInput(
            f"{option} names one memory, and there are {len(items)} texts", remedy="remember them one by one"
        )
    with call.progress("remembering", len(items)) as progress:
        memories = call.view.remember_many(items, progress=progress)
    from everhold.interfaces.cli.memory_results import show_memories

    return show_memories(call, memories, f"remembered {len(memories):,}" if len(memories) > 1 else "remembered")


@command(app, "recall", filters=read_filters)
def recall(
    call: Call,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    k: Annotated[int, typer.Option("-k", metavar="1–1000", help="The maximum number of hits.")] = 10,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="Answer with what was known at this time.")] = None,
    minimum: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="The lowest score of a hit, 0 to 1; 0 shows the nearest."),
    ] = None,
    include: Included = None,
    recipe: Annotated[str, typer.Option(metavar="NAME", help="hybrid, meaning or words.")] = "hybrid",
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Search with another model than the first.")] = None,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what contributed to each score.")] = False,
    include_superseded: Superseded = False,
    among: Among = None,
    namespace: Namespaces = None,
    *,
    filters: dict[str, Any],
) -> CommandResult:  # fmt: skip
    """Find the memories or messages that answer a question, best first."""
    moment = call.parse_moment("--as-of", as_of, "ago")
    search_filters = {**filters, "among": among or "memory", "namespace": namespace or None, "include": include or ()}
    view = call.search_view  # the model of the store begins to load
    from everhold.interfaces.cli.memory_results import show_hits

    hits = view.recall(
        question, k=k, as_of=moment, minimum=minimum, recipe=recipe, cursor=cursor, model=model,
        include_superseded=include_superseded, **search_filters,
    )  # fmt: skip
    hint = suggest_kinds(filters)
    return show_hits(call, hits, minimum, recipe, hint, explain=explain, among=among or ["memory"])


@command(app, "get")
def get(call: Call, name: MemoryName) -> CommandResult:
    """Show a memory with all its fields."""
    memory = call.view.get(resolve_id(call, name))
    from everhold.interfaces.cli.memory_results import show_memory

    return show_memory(call, memory)


@command(app, "list", filters=read_filters)
def list_memories(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="The maximum number of memories.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Show the oldest first.")] = False,
    namespace: Namespaces = None,
    *,
    filters: dict[str, Any],
) -> CommandResult:
    """Show memories, the newest first."""
    page = call.view.list(limit=limit, cursor=cursor, oldest_first=oldest_first, namespace=namespace or None, **filters)
    from everhold.interfaces.cli.memory_results import show_page

    return show_page(call, page, f"{call.describe_empty_scope()}{suggest_kinds(filters)}")


@command(app, "count", filters=read_filters)
def count(call: Call, *, filters: dict[str, Any]) -> CommandResult:
    """Count memories."""
    number = call.view.count(**filters)
    from everhold.interfaces.cli.memory_results import show_number

    return show_number(number)


@command(app, "revise", fields=read_memory_fields)
def revise(
    call: Call,
    name: MemoryName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The new text.")] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The reason for the change. The history keeps it.")
    ] = None,
    expected_version: ExpectedVersion = None,
    *,
    fields: dict[str, Any],
) -> CommandResult:
    """Change a memory; its history is kept. The time 'never' removes a date."""
    changes = fields if text is None else {"text": text, **fields}
    if not changes:
        raise InvalidInput("there is nothing to change", remedy="give a text or an option such as --priority")
    memory = call.view.revise(resolve_id(call, name), reason=reason, expected_version=expected_version, **changes)
    from everhold.interfaces.cli.memory_results import show_memories

    return show_memories(call, [memory], f"revision {memory.revision}")


@command(app, "supersede", fields=read_memory_fields, identity=read_identity)
def supersede(
    call: Call,
    name: MemoryName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text of the new memory.")],
    expected_version: ExpectedVersion = None,
    *,
    fields: dict[str, Any],
    identity: dict[str, Any],
) -> CommandResult:
    """Replace a memory with a new one."""
    replaced_id = resolve_id(call, name)
    memory = call.view.supersede(replaced_id, text, expected_version=expected_version, **fields, **identity)
    from everhold.interfaces.cli.memory_results import show_memories

    return show_memories(call, [memory], f"replaces {replaced_id}")


@command(app, "history")
def show_history(call: Call, name: MemoryName) -> CommandResult:
    """Show the earlier versions of a memory."""
    memory_id = resolve_id(call, name)
    revisions = call.view.history(memory_id)
    from everhold.interfaces.cli.memory_results import show_revisions

    return show_revisions(call, memory_id, revisions)
