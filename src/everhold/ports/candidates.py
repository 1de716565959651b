"""Where to look in a scope that is too large to be held: indexes propose, our code scores.

`images` names the images to look in, by user; None is the whole organization. Only current chunks of live memories,
of the long-term namespace and of the given model are proposed. Nothing is promised about the order; what is promised
is that every proposal lies in the organization and the images asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from everhold.ports.embedder import Vector
from everhold.ports.records import Records


@dataclass(frozen=True)
class Statistics:
    """What the weight of a term depends on: how many chunks there are, and how many hold each term."""

    chunks: int
    holding: Mapping[str, int]


class WordCandidates(Protocol):
    """Memory ids worth scoring because of their words."""

    def by_words(
        self, organization_id: str, images: Sequence[str] | None, model: str, statistics: Statistics, limit: int
    ) -> list[str]:
        """Owners of chunks that hold any term of `statistics`; those with more and rarer ones first."""
        ...

    def statistics(
        self, organization_id: str, images: Sequence[str] | None, model: str, terms: Sequence[str]
    ) -> Statistics: ...


class VectorCandidates(Protocol):
    """Memory ids worth scoring because of their vectors."""

    def by_vector(
        self, organization_id: str, images: Sequence[str] | None, model: str, vector: Vector, limit: int
    ) -> list[str]:
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
