"""Commands on relationships and tags."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from everhold.interfaces.cli import memory_lists, show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.ids import MemoryName, resolve_id
from everhold.interfaces.shared.documents import add_tags
from everhold.interfaces.shared.inputs import parse_object
from everhold.model.memory import RELATIONSHIP_TYPES

app = typer.Typer()

Tags = Annotated[list[str], typer.Argument(metavar="TAG…")]


def list_relationship_types() -> list[str]:
    return list(RELATIONSHIP_TYPES)


@command(app, "relate")
def relate(
    call: Call,
    source: MemoryName,
    target: MemoryName,
    relationship_type: Annotated[
        str,
        typer.Option(
            "--type", metavar="TYPE", help="The type of the relationship.", autocompletion=list_relationship_types
        ),
    ] = "related_to",
    metadata: Annotated[str | None, typer.Option(metavar="JSON")] = None,
) -> CommandResult:
    """Link two memories."""
    fields = parse_object(metadata, "--metadata") if metadata is not None else {}
    link = call.view.relate(resolve_id(call, source), resolve_id(call, target), relationship_type, metadata=fields)
    sentence = f"{link.source_memory_id} {link.relationship_type} {link.target_memory_id}"
    return CommandResult({"relationship": link}, show.render_text(sentence))


@command(app, "relations")
def show_relations(
    call: Call,
    name: MemoryName,
    depth: Annotated[int, typer.Option(metavar="1–10", help="How many steps away.")] = 1,
    relationship_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", autocompletion=list_relationship_types)
    ] = None,
) -> CommandResult:
    """Show the memories related to a memory, nearest first."""
    memory_id = resolve_id(call, name)
    relations = call.view.relations(memory_id, depth=depth, relationship_type=relationship_type)
    tags = call.view.tags_of([relation.memory.id for relation in relations])
    table = show.make_table("steps", "relationship", "memory")
    for relation in relations:
        is_outward = relation.relationship.target_memory_id == relation.memory.id
        arrow = f"{'→' if is_outward else '←'} {relation.relationship.relationship_type}"
        table.add_row(
            str(relation.depth),
            arrow,
            memory_lists.render_memory(relation.memory, call.zone, tags.get(relation.memory.id, ())),
        )
    documents = [
        {"memory": memory, "relationship": relation.relationship, "depth": relation.depth}
        for relation, memory in zip(relations, add_tags([relation.memory for relation in relations], tags), strict=True)
    ]
    output: RenderableType = table if relations else Text(f"nothing is related to {memory_id}", style="dim")
    return CommandResult({"related": documents}, output)


@command(app, "tag")
def tag(call: Call, name: MemoryName, tags: Tags) -> CommandResult:
    """Add tags to a memory."""
    memory_id = resolve_id(call, name)
    return _show_memory_tags(memory_id, call.view.tag(memory_id, *tags))


@command(app, "untag")
def untag(call: Call, name: MemoryName, tags: Tags) -> CommandResult:
    """Remove tags from a memory."""
    memory_id = resolve_id(call, name)
    return _show_memory_tags(memory_id, call.view.untag(memory_id, *tags))


def _show_memory_tags(memory_id: str, tags: tuple[str, ...]) -> CommandResult:
    tag_list = " ".join(f"#{tag}" for tag in tags) or "no tags"
    return CommandResult({"id": memory_id, "tags": tags}, show.render_text(f"{memory_id} {tag_list}"))


@command(app, "tags")
def show_tags(call: Call) -> CommandResult:
    """Show all tags with the number of memories."""
    counts = call.view.tags()
    table = show.make_table("tag", "memories")
    for tag_name, count in counts.items():
        table.add_row(show.render_text(tag_name), f"{count:,}")
    output: RenderableType = table if counts else Text("no tags", style="dim")
    return CommandResult({"tags": counts}, output)
