"""What a recall gives back, and why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload

from recollect.model import Memory
from recollect.recall.cursor import encode_rank


@dataclass(frozen=True)
class Why:
    """What each sign contributed to a score. The contributions add up to it.

    `likeness` is the cosine that `meaning` was made of, and `matched` what each shared term gave to `words`.
    """

    meaning: float
    words: float
    importance: float
    likeness: float
    matched: Mapping[str, float] = field(default_factory=dict)
    searched: str = "image"

    def __str__(self) -> str:
        parts = [f"meaning {self.meaning:+.3f}", f"words {self.words:+.3f}"]
        if self.matched:
            parts[1] += f" ({', '.join(self.matched)})"
        return " · ".join([*parts, f"importance {self.importance:+.3f}"])


class Details(Protocol):
    """What is worked out about hits only when somebody asks."""

    def why(self, hit: "Hit") -> Why: ...
    def tags(self, hit: "Hit") -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Hit:
    """A recalled memory. `score` is higher for what fits better, 1 for a perfect fit."""

    memory: Memory
    score: float
    _details: Details = field(repr=False, compare=False)

    @property
    def why(self) -> Why:
        """What each sign contributed to the score."""
        return self._details.why(self)

    @property
    def tags(self) -> tuple[str, ...]:
        """The memory's tags."""
        return self._details.tags(self)


@dataclass(frozen=True)
class Hits(Sequence[Hit]):
    """Hits, best first. `approximate` says that some may have been missed."""

    hits: tuple[Hit, ...]
    more: bool = False
    approximate: bool = False

    @property
    def cursor(self) -> str | None:
        """Asks for the hits that follow, if there are more."""
        last = self.hits[-1] if self.more and self.hits else None
        return None if last is None else encode_rank((-last.score, last.memory.id))

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)
