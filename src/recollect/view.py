"""The verbs on one scope's data."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from recollect import clock
from recollect.model import Memory, Scope
from recollect.model.access import access_line
from recollect.parts import Parts
from recollect.recall.filters import check_include, make_filter
from recollect.recall.hit import Hits
from recollect.recall.pipeline import Request, recall
from recollect.recall.recipe import HYBRID, RECIPES
from recollect.remember.pipeline import BATCH, remember


class View:
    """What one scope may see and do; the only way to data."""

    def __init__(self, parts: Parts, scope: Scope) -> None:
        self._parts = parts
        self.scope = scope

    def remember(self, text: str = "", **fields: Any) -> Memory:
        """Keeps one memory, durably, before it returns. A duplicate reinforces what is there."""
        return self._remember([{"text": text, **fields} if text else fields])[0]

    def remember_many(self, items: Iterable[str | Mapping[str, Any]]) -> list[Memory]:
        """Keeps many memories: sentences, or fields by name. Every 2,048 are one commit."""
        kept: list[Memory] = []
        batch: list[str | Mapping[str, Any]] = []
        for item in items:
            batch.append(item)
            if len(batch) == BATCH:
                kept += self._remember(batch)
                batch = []
        return kept + self._remember(batch) if batch else kept

    def _remember(self, items: Sequence[str | Mapping[str, Any]]) -> list[Memory]:
        return remember(self._parts.keeper, self.scope, items)

    def recall(
        self,
        query: str,
        *,
        k: int = 10,
        kind: str | Sequence[str] | None = None,
        tags: str | Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        as_of: datetime | None = None,
        minimum: float | None = None,
        include: str | Sequence[str] = (),
        cursor: str | None = None,
        recipe: str = HYBRID.name,
    ) -> Hits:
        """The memories that answer a question best, each with why."""
        request = Request(
            query,
            k,
            make_filter(where, kind=kind, tags=tags, after=after, before=before),
            as_of,
            minimum,
            check_include(include),
            cursor,
            RECIPES[recipe],
        )
        hits = recall(self._parts.seeker, self.scope, request)
        line = access_line(self.scope, "search", clock.now(), {"k": k, "hits": len(hits), "length": len(query)})
        self._parts.access.note(line, [hit.memory.id for hit in hits])
        return hits
