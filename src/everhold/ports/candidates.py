"""Where to look in a scope that is too large to be held: indexes propose, our code scores.

Owners of the current chunks of a search space are proposed. Nothing is promised about the order; what is promised is
that every proposal lies in the space.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace


@dataclass(frozen=True)
class Statistics:
    """What the weight of a term depends on: how many chunks there are, and how many hold each term."""

    chunks: int
    holding: Mapping[str, int]


class WordCandidates(Protocol):
    """Ids worth scoring because of their words."""

    def by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        """Owners of chunks that hold any term of `statistics`; those with more and rarer ones first."""
        ...

    def statistics(self, space: SearchSpace, terms: Sequence[str]) -> Statistics: ...


class VectorCandidates(Protocol):
    """Ids worth scoring because of their vectors."""

    def by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        """Owners of the chunks nearest to a vector."""
        ...


def _nothing_to_close() -> None:
    pass


def _nothing_to_follow(model: str, dimensions: int) -> None:
    pass


@dataclass(frozen=True)
class Candidates:
    """The two together; what they may do in the background for a model, and how to end it; what doctor says of it.

    `records` is what recalls read instead of the store, where that is something else.
    """

    words: WordCandidates
    vectors: VectorCandidates
    close: Callable[[], None] = _nothing_to_close
    follow: Callable[[str, int], None] = _nothing_to_follow
    report: Callable[[], Mapping[str, str]] = dict
    problems: Callable[[], list[str]] = list
    records: Records | None = None
    drop_files: Callable[[], None] = _nothing_to_close
    """Deletes index files, which are made again from the records: they may hold vectors of purged texts."""
