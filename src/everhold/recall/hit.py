"""The result of a recall: hits, their scores, and why each was found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from everhold.errors import InvalidInput
from everhold.model import Memory
from everhold.model.base import Entity, cut_text
from everhold.model.page import ResultPage
from everhold.model.searchable import SEARCHABLE
from everhold.recall.cursor import HitPlace, encode_hit_place
from everhold.values import Value, value_class

if TYPE_CHECKING:
    from everhold.model import Message

E = TypeVar("E", bound=Entity)


@value_class
class Why(Value):
    """The contributions of the retrievers to a score.

    `base` and the `contributions` add up to the sum from which the recipe computes the score: for `hybrid` the log odds
    that the memory answers the question, for `meaning` and `words` the score itself. `similarity` is the cosine of the
    question and the memory, and `matched` has the question's terms that the memory has.

    `contributions["answer"]` is what comparing the best memories with each other adds, and `judged` has the parts of
    that contribution. `updates` is the id of the memory that this memory replaces for this question, and `outdated_by`
    the id of the memory that replaces this memory. `searched` is "image", or "candidates" if the store's indexes
    proposed the memory.
    """

    contributions: Mapping[str, float] = field(default_factory=dict)
    base: float = 0.0
    similarity: float = 0.0
    matched: tuple[str, ...] = ()
    searched: str = "image"
    judged: Mapping[str, float] = field(default_factory=dict)
    updates: str | None = None
    outdated_by: str | None = None

    @property
    def by_retriever(self) -> dict[str, float]:
        """The contributions, added up for each retriever, in the order in which the recipe names the retrievers."""
        contributions: dict[str, float] = {}
        for name, value in self.contributions.items():
            retriever = name.partition(".")[0]
            contributions[retriever] = round(contributions.get(retriever, 0.0) + value, 6)
        return contributions

    def __str__(self) -> str:
        parts = [f"{name} {value:+.2f}" for name, value in self.by_retriever.items()]
        if self.matched:
            parts.append(f"shares {', '.join(self.matched)}")
        if self.updates:
            parts.append(f"newer than {self.updates}")
        if self.outdated_by:
            parts.append(f"outdated by {self.outdated_by}")
        return " · ".join(parts)


class Details(Protocol):
    """Computes what hits show only when it is read: explanations, tags and pinned memories."""

    def why(self, hit: "Hit") -> Why: ...
    def tags(self, hit: "Hit") -> tuple[str, ...]: ...
    def pinned(self) -> tuple[Memory, ...]: ...
    def fetch(self) -> None: ...


@dataclass(frozen=True, repr=False)
class Hit:
    """A recalled record: a memory, or another kind of thing that was searched.

    `score` is higher for what fits better, 1 for a perfect fit.
    """

    record: Entity
    score: float
    _details: Details = field(compare=False)
    kind: str = "memory"

    def __repr__(self) -> str:
        kind = f", kind={self.kind!r}" if self.kind != "memory" else ""
        return f"Hit({self.score:.2f}, {cut_text(self.text)!r}{kind})"

    @property
    def memory(self) -> Memory:
        """The recalled memory. Raise InvalidInput if the hit is of another kind."""
        return self._require(Memory)

    @property
    def message(self) -> "Message":
        """The recalled message. Raise InvalidInput if the hit is of another kind."""
        from everhold.model import Message  # most recalls search memories only

        return self._require(Message)

    def _require(self, entity: type[E]) -> E:
        if not isinstance(self.record, entity):
            raise InvalidInput(f"this hit is a {self.kind}, not a {entity.__name__.lower()}", remedy="use hit.record")
        return self.record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def text(self) -> str:
        """The text of the record that was searched."""
        return SEARCHABLE[self.kind].text(self.record)

    @property
    def why(self) -> Why:
        """The contributions of the retrievers to the score."""
        return self._details.why(self)

    @property
    def tags(self) -> tuple[str, ...]:
        """The memory's tags; records of other kinds have none. The first use reads the tags of all hits."""
        return self._details.tags(self)


@dataclass(frozen=True, repr=False)
class Hits(ResultPage[Hit]):
    """Hits, best first. `approximate` says that the search may have missed some records that fit."""

    _items_field: ClassVar[str] = "hits"

    hits: tuple[Hit, ...]
    more: bool = False
    approximate: bool = False
    _details: Details | None = field(default=None, compare=False)
    _seen: tuple[str, ...] = field(default=(), compare=False)

    @property
    def pinned(self) -> tuple[Memory, ...]:
        """The pinned memories of the scope, most important first, for any question. A pinned memory that answers
        the question is among the hits too."""
        return self._details.pinned() if self._details is not None else ()

    def load_details(self) -> "Hits":
        """Read the tags and the pinned memories now instead of at their first use, and return these hits."""
        if self._details is not None:
            self._details.fetch()
        return self

    @property
    def cursor(self) -> str | None:
        """The value that `recall(cursor=…)` takes for the next page; None on the last page."""
        last = self.hits[-1] if self.more and self.hits else None
        if last is None:
            return None
        return encode_hit_place(HitPlace((-last.score, last.id, last.kind), self._seen))
