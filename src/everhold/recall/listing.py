"""List and count the memories of a scope, without a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everhold.model import Memory, Scope
from everhold.model.page import ResultPage
from everhold.ports.records import Records
from everhold.recall.cursor import decode_page, encode_page
from everhold.recall.eligible import resolve_filter
from everhold.recall.filters import Filter
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Condition, Page

_ORDER = "created_at"


@dataclass(frozen=True, repr=False)
class Listing(ResultPage[Memory]):
    """A page of memories. Pass `cursor` to get the next page; it is None on the last one."""

    _items_field: ClassVar[str] = "memories"

    memories: tuple[Memory, ...]
    cursor: str | None = None


def read_listing(
    records: Records, scope: Scope, memory_filter: Filter, *, limit: int, cursor: str | None, oldest_first: bool
) -> Listing:
    """Return a page of the scope's memories that pass the filter, ordered by creation time."""
    rows = records.scan(
        Memory,
        scope.organization,
        make_conditions(records, scope, memory_filter),
        order=_ORDER,
        descending=not oldest_first,
        after=decode_page(cursor, scope.organization) if cursor else None,
        limit=limit + 1,
    )
    page = rows[:limit]
    next_cursor = (
        encode_page(Page(page[-1].created_at, (scope.organization, page[-1].id))) if len(rows) > limit else None
    )
    return Listing(tuple(page), next_cursor)


def count_matching(records: Records, scope: Scope, memory_filter: Filter) -> int:
    """Count the scope's memories that pass the filter."""
    return records.count(Memory, scope.organization, make_conditions(records, scope, memory_filter))


def list_matching_ids(records: Records, scope: Scope, memory_filter: Filter) -> list[str]:
    """Return the ids of all memories of the scope that pass the filter, sorted."""
    rows = records.columns(Memory, scope.organization, ["id"], make_conditions(records, scope, memory_filter))
    return sorted(memory_id for (memory_id,) in rows)


def make_conditions(records: Records, scope: Scope, memory_filter: Filter) -> Sequence[Condition]:
    return [*make_scope_conditions(scope), *resolve_filter(records, scope.organization, memory_filter)]
