"""The arguments of a recall, and the parts of the engine that it needs."""

from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from everhold.model.memory import LONG_TERM
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.recall.filters import ANY, Filter
from everhold.recall.images import ImageCache
from everhold.recall.recipe import HYBRID, Recipe
from everhold.values import Value, value_class


@value_class
class RecallDeps(Value):
    """The parts of the engine that recall uses."""

    records: Records
    embedder: Embedder
    images: ImageCache
    candidates: SearchIndexes
    thesaurus: Thesaurus = NO_THESAURUS
    zone: tzinfo = UTC


class Request(NamedTuple):
    """A question and the options of its recall. `k` is the maximum number of hits, `among` the kinds of records
    searched.

    `minimum` replaces the recipe's bounds. `as_of` asks for records as they were at a time; `asked_at` is the time from
    which words like "yesterday" are counted. `vector` is the question's vector if the caller has embedded it.
    `superseded` includes superseded memories.
    """

    query: str
    k: int = 10
    filter: Filter = ANY
    as_of: datetime | None = None
    minimum: float | None = None
    include: tuple[str, ...] = ()
    cursor: str | None = None
    recipe: Recipe = HYBRID
    asked_at: datetime | None = None
    vector: Vector | None = None
    among: tuple[str, ...] = ("memory",)
    namespaces: tuple[str, ...] = (LONG_TERM,)
    superseded: bool = False

    @property
    def min_score(self) -> float:
        """The lowest score that a hit may have; 0 if every score is allowed."""
        return self.recipe.minimum if self.minimum is None else self.minimum

    @property
    def share(self) -> float:
        """The lowest share of the best score that a hit may have; 0 if the caller has set the minimum."""
        return self.recipe.share if self.minimum is None else 0.0
