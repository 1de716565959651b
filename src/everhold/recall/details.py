"""Compute what hits show only when it is read: explanations, tags and pinned memories."""

from collections.abc import Sequence
from functools import cached_property

from everhold import clock
from everhold.model import Memory, Scope, Tag
from everhold.ports.records import Records
from everhold.recall.diverse import ScoredRecord
from everhold.recall.hit import Hit, Why
from everhold.recall.pinned import list_pinned
from everhold.recall.scoring import Scored
from everhold.schema.operations import Op, Where


class HitDetails:
    """Computes the explanations of one recall's hits, and reads their tags and the pinned memories."""

    def __init__(self, records: Records, scope: Scope, include: Sequence[str], hits: Sequence[ScoredRecord]) -> None:
        self._records, self._scope, self._include = records, scope, include
        self._hits = hits
        self._tags: dict[str, tuple[str, ...]] | None = None
        self._pinned: tuple[Memory, ...] | None = None
        self.searched = "image"

    def why(self, hit: Hit) -> Why:
        return self._scored[hit.kind, hit.id].why(self.searched)

    @cached_property
    def _scored(self) -> dict[tuple[str, str], Scored]:
        return {(scored.kind, scored.owner_id): scored for scored, _ in self._hits}

    def pinned(self) -> tuple[Memory, ...]:
        if self._pinned is None:
            self._pinned = list_pinned(self._records, self._scope, self._include, clock.now())
        return self._pinned

    def tags(self, hit: Hit) -> tuple[str, ...]:
        if self._tags is None:
            self._tags = self._read_tags()
        return self._tags.get(hit.id, ()) if hit.kind == "memory" else ()

    def fetch(self) -> None:
        self.pinned()
        self._tags = self._read_tags()

    def _read_tags(self) -> dict[str, tuple[str, ...]]:
        ids = [scored.owner_id for scored, _ in self._hits if scored.kind == "memory"]
        return read_tags(self._records, self._scope.organization, ids)


def read_tags(records: Records, organization: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the sorted tags of each memory, by its id. Memories without tags are left out."""
    tags_by_memory: dict[str, list[str]] = {}
    if ids:
        for memory_id, tag in records.columns(
            Tag, organization, ("memory_id", "tag"), [Where("memory_id", Op.IN, ids)]
        ):
            tags_by_memory.setdefault(memory_id, []).append(tag)
    return {memory_id: tuple(sorted(tags)) for memory_id, tags in tags_by_memory.items()}
