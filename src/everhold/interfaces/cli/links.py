"""Commands on what hangs on memories: relationships and tags."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command
from everhold.interfaces.cli.ids import MemoryName, resolve_id
from everhold.interfaces.shared.documents import tagged
from everhold.interfaces.shared.inputs import parse_object
from everhold.model.memory import RELATIONSHIP_TYPES

app = typer.Typer()

Words = Annotated[list[str], typer.Argument(metavar="TAG…")]


def relationship_types() -> list[str]:
    return list(RELATIONSHIP_TYPES)


@command(app, "relate")
def relate(
    call: Call,
    source: MemoryName,
    target: MemoryName,
    relationship_type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="How they hang together.", autocompletion=relationship_types)
    ] = "related_to",
    metadata: Annotated[str | None, typer.Option(metavar="JSON")] = None,
) -> Outcome:
    """Link two memories."""
    values = parse_object(metadata, "--metadata") if metadata is not None else {}
    link = call.view.relate(resolve_id(call, source), resolve_id(call, target), relationship_type, metadata=values)
    said = f"{link.source_memory_id} {link.relationship_type} {link.target_memory_id}"
    return Outcome({"relationship": link}, show.plain(said))


@command(app, "relations")
def relations(
    call: Call,
    name: MemoryName,
    depth: Annotated[int, typer.Option(metavar="1–10", help="How many steps away.")] = 1,
    relationship_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", autocompletion=relationship_types)
    ] = None,
) -> Outcome:
    """Show the memories that are linked to one, nearest first."""
    found = call.view.relations(resolve_id(call, name), depth=depth, relationship_type=relationship_type)
    tags = call.view.tags_of([one.memory.id for one in found])
    made = show.table("steps", "relationship", "memory")
    for one in found:
        outward = one.relationship.target_memory_id == one.memory.id
        said = f"{'→' if outward else '←'} {one.relationship.relationship_type}"
        made.add_row(str(one.depth), said, show.memory_cell(one.memory, call.zone, tags.get(one.memory.id, ())))
    related = [
        {"memory": memory, "relationship": one.relationship, "depth": one.depth}
        for one, memory in zip(found, tagged([one.memory for one in found], tags), strict=True)
    ]
    shown: RenderableType = made if found else Text(f"nothing is related to {name}", style="dim")
    return Outcome({"related": related}, shown)


@command(app, "tag")
def tag(call: Call, name: MemoryName, words: Words) -> Outcome:
    """Add tags to a memory."""
    memory_id = resolve_id(call, name)
    return _carried(memory_id, call.view.tag(memory_id, *words))


@command(app, "untag")
def untag(call: Call, name: MemoryName, words: Words) -> Outcome:
    """Take tags from a memory."""
    memory_id = resolve_id(call, name)
    return _carried(memory_id, call.view.untag(memory_id, *words))


def _carried(name: str, words: tuple[str, ...]) -> Outcome:
    said = " ".join(f"#{word}" for word in words) or "no tags"
    return Outcome({"id": name, "tags": words}, show.plain(f"{name} {said}"))


@command(app, "tags")
def tags(call: Call) -> Outcome:
    """Show all tags and how many memories carry each."""
    counts = call.view.tags()
    made = show.table("tag", "memories")
    for word, count in counts.items():
        made.add_row(show.plain(word), f"{count:,}")
    shown: RenderableType = made if counts else Text("no tags", style="dim")
    return Outcome({"tags": counts}, shown)
