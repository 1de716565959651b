"""The results of the commands on memories, as documents and as tables.

Commands import this module after they have opened the store, because the embedding model then loads in a thread, and
the import takes no extra time. Rich is imported where it is used, because the commands that only list memories do not
need it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from everhold import Memory
from everhold.interfaces.cli import memory_lists
from everhold.interfaces.cli.call import Call, CommandResult
from everhold.interfaces.cli.text_lists import TextList, make_note, stack
from everhold.interfaces.shared.times import format_local
from everhold.recall.hit import Hits
from everhold.recall.recipe import get_recipe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from everhold import Revision
    from everhold.recall.listing import Listing

_MAX_SHOWN = 50
_MAX_TEXT_LENGTH = 400
_NOTHING_RELEVANT = f"{memory_lists.NOTHING_RELEVANT}; --minimum 0 shows the nearest"


def show_memories(
    call: Call, memories: Sequence[Memory], heading: str = "", *, empty: str = "no memories"
) -> CommandResult:
    """Return memories with their tags; the table shows only the first `_MAX_SHOWN`."""
    tags = call.view.tags_of([memory.id for memory in memories])
    parts: list[RenderableType] = [make_note(heading, "bold")] if heading else []
    rows = memories[:_MAX_SHOWN]
    parts.append(memory_lists.make_memory_list(rows, call.zone, tags, call.scope, empty=empty))
    if len(memories) > _MAX_SHOWN and heading:
        parts.append(make_note(f"… and {len(memories) - _MAX_SHOWN:,} more; --json shows all"))
    return CommandResult({"memories": _make_documents(memories, tags)}, stack(parts))


def _make_documents(memories: Sequence[Memory], tags: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return memories as documents with their tags."""
    if not memories:
        return []
    from everhold.interfaces.shared.documents import add_tags  # imported late: most recalls have no pinned memories

    return add_tags(memories, tags)


def show_hits(
    call: Call, hits: Hits, minimum: float | None, recipe: str, hint: str, *, explain: bool, among: Sequence[str]
) -> CommandResult:
    """Return the result that shows hits and pinned memories.

    If nothing was found, a note says so, followed by `hint`.
    """
    is_limited = minimum or (minimum is None and get_recipe(recipe).minimum)
    reason = _NOTHING_RELEVANT if is_limited else memory_lists.NOTHING_FOUND
    empty = (reason if "message" in among else explain_no_hits(call, hits, reason)) + hint
    pinned = hits.pinned
    tags = call.view.tags_of([memory.id for memory in pinned]) if pinned else {}
    numbered = call.number_rows(hit.id for hit in hits)
    parts: list[RenderableType] = [
        memory_lists.make_hit_list(hits, call.zone, call.scope, empty=empty, numbered=numbered)
    ]
    if explain and hits:
        from everhold.interfaces.cli import show

        parts += [make_note(""), show.make_why_table(hits, call.zone)]
    if hits.approximate:
        parts.append(make_note("approximate: the scope is too large for an exact search"))
    if hits.cursor:
        parts.append(render_cursor(hits.cursor))
    if pinned:
        parts += [make_note("\npinned", "bold"), memory_lists.make_memory_list(pinned, call.zone, tags, call.scope)]
    document = {
        "hits": hits.hits,
        "pinned": _make_documents(pinned, tags),
        "cursor": hits.cursor,
        "approximate": hits.approximate,
    }
    return CommandResult(document, stack(parts))


def explain_no_hits(call: Call, hits: Hits, reason: str) -> str:
    """Return `reason`, or, if the scope has no memories, a text that says so: a misspelt user explains the silence."""
    return reason if hits or call.view.list(limit=1) else call.describe_empty_scope()


def render_cursor(cursor: str) -> TextList:
    return make_note(f"next page: --cursor {cursor}")


def show_memory(call: Call, memory: Memory) -> CommandResult:
    """Return a memory with all its fields."""
    from everhold.interfaces.cli import show

    tags = call.view.tags_of([memory.id])
    values = {"id": memory.id, "text": memory.text, "kind": memory.kind, "tags": tags.get(memory.id, ()),
              "priority": memory.priority, **memory.__dict__}  # fmt: skip
    return CommandResult(_make_documents([memory], tags)[0], show.make_fields_table(values, call.zone))


def show_page(call: Call, page: "Listing", empty: str) -> CommandResult:
    """Return one page of memories."""
    tags = call.view.tags_of([memory.id for memory in page])
    numbered = call.number_rows(memory.id for memory in page)
    parts: list[RenderableType] = [
        memory_lists.make_memory_list(page, call.zone, tags, call.scope, empty=empty, numbered=numbered)
    ]
    if page.cursor:
        parts.append(render_cursor(page.cursor))
    return CommandResult({"memories": _make_documents(page, tags), "cursor": page.cursor}, stack(parts))


def show_number(number: int) -> CommandResult:
    """Return how many memories there are."""
    return CommandResult({"count": number}, make_note(f"{number:,}", ""))


def show_revisions(call: Call, memory_id: str, revisions: "Sequence[Revision]") -> CommandResult:
    """Return the earlier versions of a memory."""
    from everhold.interfaces.cli import show

    table = show.make_table("revision", "known", "reason", "text")
    for revision in revisions:
        period = f"{format_local(revision.known_from, call.zone)}\n{format_local(revision.known_to, call.zone)}"
        table.add_row(
            str(revision.revision),
            period,
            show.render_text(revision.reason or ""),
            show.render_text(revision.value.get("text", ""), _MAX_TEXT_LENGTH),
        )
    return CommandResult({"revisions": revisions}, table if revisions else make_note(f"{memory_id} was never changed"))
