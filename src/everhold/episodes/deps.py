"""The dependencies of building and reading episodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from everhold.model import Chunk, Episode
from everhold.ports.records import Records
from everhold.text.summaries import CountTokens


@dataclass(frozen=True)
class EpisodeDeps:
    """The store and the functions that episodes are built with."""

    records: Records
    count_tokens: CountTokens
    make_chunks: Callable[[Sequence[Episode]], list[list[Chunk]]]
    """Returns the search chunks of each episode."""
    model: str
    """The embedding model whose message vectors are compared to detect a change of topic."""
    zone: tzinfo
    """Days, weeks, months and years begin at midnight in this time zone."""
