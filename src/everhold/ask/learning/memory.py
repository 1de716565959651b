"""The query patterns of a scope: which of them answer a question, and how likely."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from everhold.ask.learning.concepts import Concepts, compare_concepts
from everhold.ask.learning.patterns import LearnedPattern, ReadContext
from everhold.ask.learning.similarity import TextIndex
from everhold.ask.learning.slots import MaskedQuestion

_VOTERS = 7
_POWER = 4  # of the similarity that a vote counts: near questions decide
_OTHER_SIGNATURE = 0.5
_MOST_COMPARED = 40  # patterns whose concepts are compared
_EMBEDDED = 0.5  # the share of the similarity by meaning, where it is known and greater
# Similarity is not yet a chance: at 0.6, about nine of ten statements are right on GeoQuery.
_STEEPNESS, _EVEN = 14.0, 0.5
_LEAST_SIMILARITY = 0.3


@dataclass(frozen=True)
class PatternMatch:
    """A statement that patterns propose for a question. `confidence` is the chance that it is right."""

    sql: str
    confidence: float
    similarity: float
    pattern: LearnedPattern


@dataclass(frozen=True)
class _Vote:
    similarity: float
    pattern: LearnedPattern


class PatternMemory:
    """Patterns with an index of their masked questions. It is not changed; `add` returns another one."""

    def __init__(self, patterns: Iterable[LearnedPattern]) -> None:
        self.patterns = tuple(patterns)

    @cached_property
    def _active(self) -> tuple[LearnedPattern, ...]:
        return tuple(pattern for pattern in self.patterns if pattern.is_active)

    @cached_property
    def _index(self) -> TextIndex:
        return TextIndex([pattern.masked.text for pattern in self._active])

    def propose(
        self,
        context: ReadContext,
        question: str | Sequence[MaskedQuestion],
        meanings: Mapping[str, float] | None = None,
    ) -> list[PatternMatch]:
        """Return the statements that patterns propose for a question, best first.

        `meanings` has, by the id of a pattern, how similar it is to the question by its embedding.
        """
        masks = context.mask(question) if isinstance(question, str) else question
        votes: dict[str, list[_Vote]] = defaultdict(list)
        count = 0
        concepts = {masked: context.find_concepts(masked) for masked in masks}
        for similarity, pattern, masked in self._rank(context, concepts, meanings or {}):
            sql = pattern.fill(masked, concepts[masked])
            if sql is not None:
                votes[sql].append(_Vote(similarity, pattern))
                count += 1
            if count == _VOTERS:
                break
        total = sum(vote.similarity**_POWER for cast in votes.values() for vote in cast)
        matches = [_make_match(sql, cast, total) for sql, cast in votes.items()]
        likely = [match for match in matches if match.similarity >= _LEAST_SIMILARITY]
        return sorted(likely, key=lambda match: -match.confidence)

    def _rank(
        self, context: ReadContext, concepts: Mapping[MaskedQuestion, Concepts], meanings: Mapping[str, float]
    ) -> list[tuple[float, LearnedPattern, MaskedQuestion]]:
        """Return the patterns that resemble a question, most similar first, each with the mask that fits it best."""
        best: dict[int, tuple[float, MaskedQuestion]] = {}
        for masked in concepts:
            for place, words in self._index.measure(masked.text).items():
                pattern = self._active[place]
                meaning = meanings.get(pattern.id, 0.0)
                similarity = max(words, (1 - _EMBEDDED) * words + _EMBEDDED * meaning)
                similarity *= 1.0 if pattern.masked.signature == masked.signature else _OTHER_SIGNATURE
                if place not in best or best[place][0] < similarity:
                    best[place] = similarity, masked
        nearest = sorted(best.items(), key=lambda item: -item[1][0])[:_MOST_COMPARED]
        ranked = []
        for place, (similarity, masked) in nearest:
            pattern = self._active[place]
            factor = compare_concepts(concepts[masked], pattern.concepts, context.reader.is_name)
            ranked.append((similarity * factor * pattern.trust, pattern, masked))
        return sorted(ranked, key=lambda item: (-item[0], item[1].id))


def _make_match(sql: str, votes: Sequence[_Vote], total: float) -> PatternMatch:
    """Return a statement with the similarity of its nearest pattern times its share of the votes."""
    nearest = max(votes, key=lambda vote: vote.similarity)
    share = sum(vote.similarity**_POWER for vote in votes) / total if total else 0.0
    similarity = min(nearest.similarity, 1.0) * share
    confidence = 1 / (1 + math.exp(-_STEEPNESS * (similarity - _EVEN)))
    return PatternMatch(sql, round(confidence, 4), similarity, nearest.pattern)
