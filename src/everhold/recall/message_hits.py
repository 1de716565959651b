"""Messages that were found, each with what was said before and after it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from everhold.model import Message
from everhold.model.page import ResultPage
from everhold.recall.hit import Hit, Hits, Why
from everhold.values import Value, value_class

# Returns the messages before a message and those after it, each oldest first.
FindNeighbours = Callable[[Message], tuple[tuple[Message, ...], tuple[Message, ...]]]


@value_class
class MessageHit(Value):
    """A message that was found, with its neighbours: `before` and `after`, each oldest first."""

    hit: Hit
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()

    @property
    def message(self) -> Message:
        return self.hit.message

    @property
    def score(self) -> float:
        return self.hit.score

    @property
    def why(self) -> Why:
        """The contributions of the retrievers to the score."""
        return self.hit.why

    @property
    def turns(self) -> tuple[Message, ...]:
        """The message between its neighbours, in the order in which they were said."""
        return (*self.before, self.message, *self.after)


@dataclass(frozen=True, repr=False)
class MessageHits(ResultPage[MessageHit]):
    """Messages, best first. Pass `cursor` to get the next page; it is None on the last one.

    `approximate` says that the search may have missed some messages that fit.
    """

    _items_field: ClassVar[str] = "hits"

    hits: tuple[MessageHit, ...]
    cursor: str | None = None
    approximate: bool = False


def add_neighbours(hits: Hits, find_neighbours: FindNeighbours) -> MessageHits:
    """Return the hits of a recall of messages, each with its neighbours."""
    return MessageHits(
        tuple([MessageHit(hit, *find_neighbours(hit.message)) for hit in hits]), hits.cursor, hits.approximate
    )
