"""Indexes that find candidates in a scope that is too large for an image in memory; recall then scores them.

A candidate is the id of a record that owns a current chunk of the search space. An index must not return ids from
outside the space. The order of the ids is only a hint, because recall scores every candidate again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.values import Value, value_class


@value_class
class Statistics(Value):
    """The counts from which term weights are computed: the number of chunks in a search space, and for each term the
    number of chunks that contain it."""

    chunks: int
    chunks_with_term: Mapping[str, int]


class WordIndex(Protocol):
    """Finds candidates by the words of their chunks."""

    def find_by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        """Return the owners of chunks that contain a term of `statistics`; owners with more and rarer terms come
        first."""
        ...

    def count_terms(self, space: SearchSpace, terms: Sequence[str]) -> Statistics:
        """Return how many chunks of the space contain each term."""
        ...


class VectorIndex(Protocol):
    """Finds candidates by the vectors of their chunks."""

    def find_by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        """Return the owners of the chunks nearest to a vector."""
        ...


def _do_nothing() -> None:
    pass


def _ignore_model(model: str, dimensions: int) -> None:
    pass


@value_class
class SearchIndexes(Value):
    """The word index and the vector index of a store, with the functions that run and inspect them.

    `follow` starts the background work for a model and its number of dimensions; `close` stops it. `report` and
    `find_problems` are shown by doctor. `records` is set if recall must not read from the store itself.
    """

    words: WordIndex
    vectors: VectorIndex
    close: Callable[[], None] = _do_nothing
    follow: Callable[[str, int], None] = _ignore_model
    report: Callable[[], Mapping[str, str]] = dict
    find_problems: Callable[[], list[str]] = list
    records: Records | None = None
    drop_files: Callable[[], None] = _do_nothing
    """Delete the index files, which may contain vectors of purged texts. They are built again from the records."""
    rebuild: Callable[[], None] = _do_nothing
    """Build an index outside the store again from the records, so that nothing of purged texts is left in it."""
