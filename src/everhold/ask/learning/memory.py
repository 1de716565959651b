"""Find the query patterns of a scope that may answer a question, and estimate the chance that they do."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from everhold.ask.language.tokens import fold_text
from everhold.ask.learning.concepts import Concepts, compare_concepts
from everhold.ask.learning.patterns import LearnedPattern, QuestionContext
from everhold.ask.learning.similarity import TextIndex, Vector, compare_vectors
from everhold.ask.learning.slots import MaskedQuestion

_MAX_VOTES = 7
_POWER = 4  # votes are weighted by this power of the similarity, so that the most similar questions decide
_OTHER_SIGNATURE = 0.5  # the factor for patterns with slots of other kinds
_MAX_RECENT = 32
_MIN_WORD_SIMILARITY = 0.2
_MAX_COMPARED = 25  # patterns whose concepts are compared
# The bonus for the same values, and their minimum number.
_SAME_VALUES, _MIN_VALUES = 0.4, 2
_EMBEDDED = 0.5  # the share of the similarity by embedding, where it is known and greater
# The logistic function that converts a similarity into a chance, which is 0.5 at `_EVEN`. At a similarity of 0.6, about
# nine of ten statements are right on GeoQuery.
_STEEPNESS, _EVEN = 14.0, 0.5
_MIN_SIMILARITY = 0.3
_OWN_CONFIDENCE = 1.0  # of a statement that was confirmed for exactly this question


@dataclass(frozen=True)
class PatternMatch:
    """A statement that patterns propose for a question. `confidence` is the chance that it is right.

    `question` is that of the most similar pattern with the values of the asked question. `is_own` says that the
    statement was confirmed for exactly the asked question.
    """

    sql: str
    confidence: float
    similarity: float
    pattern: LearnedPattern
    question: str
    is_own: bool = False


@dataclass(frozen=True)
class _Vote:
    similarity: float
    pattern: LearnedPattern
    masked: MaskedQuestion


class PatternMemory:
    """Patterns with an index of their masked questions. It is immutable: `put` returns a new object."""

    def __init__(self, patterns: Iterable[LearnedPattern]) -> None:
        self._all = {pattern.id: pattern for pattern in patterns}
        self._indexed = [pattern for pattern in self._all.values() if pattern.is_active]
        self._index = TextIndex([pattern.masked.text for pattern in self._indexed])
        # The vectors of patterns that were added after the index was built.
        self._recent: dict[str, tuple[Vector, ...]] = {}

    @property
    def patterns(self) -> tuple[LearnedPattern, ...]:
        return tuple(self._all.values())

    def get(self, pattern_id: str) -> LearnedPattern | None:
        return self._all.get(pattern_id)

    def put(self, pattern: LearnedPattern) -> "PatternMemory":
        """Return a memory with a pattern added or replaced. The index is built again after several additions."""
        if len(self._recent) >= _MAX_RECENT:
            return PatternMemory({**self._all, pattern.id: pattern}.values())
        changed = copy(self)
        changed._all = {**self._all, pattern.id: pattern}
        replaced = self._all.get(pattern.id)
        if pattern.is_active and (replaced is None or not replaced.is_active):
            changed._recent = {**self._recent, pattern.id: self._index.weigh(pattern.masked.text)}
        return changed

    def drop(self, pattern_ids: Collection[str]) -> "PatternMemory":
        """Return a memory without the patterns with these ids."""
        if not pattern_ids:
            return self
        return PatternMemory(pattern for pattern in self._all.values() if pattern.id not in pattern_ids)

    def propose(
        self,
        context: QuestionContext,
        question: str | Sequence[MaskedQuestion],
        meanings: Mapping[str, float] | None = None,
        *,
        uses_own: bool = True,
    ) -> list[PatternMatch]:
        """Return the statements that patterns propose for a question, best first.

        `meanings` maps ids of patterns to their similarity to the question by embedding. With `uses_own`, a statement
        that was confirmed for exactly this question comes first.
        """
        masks = context.mask(question) if isinstance(question, str) else question
        votes: dict[str, list[_Vote]] = defaultdict(list)
        count = 0
        concepts = {masked: context.find_concepts(masked) for masked in masks}
        for similarity, pattern, masked in self._rank(context, concepts, meanings or {}):
            sql = pattern.fill(masked, concepts[masked])
            if sql is not None:
                votes[sql].append(_Vote(similarity, pattern, masked))
                count += 1
            if count == _MAX_VOTES:
                break
        total = sum(vote.similarity**_POWER for sql_votes in votes.values() for vote in sql_votes)
        matches = [_make_match(sql, sql_votes, total) for sql, sql_votes in votes.items()]
        likely = [match for match in matches if match.similarity >= _MIN_SIMILARITY]
        ranked = sorted(likely, key=lambda match: -match.confidence)
        own_match = self._find_own(concepts) if uses_own else None
        return ranked if own_match is None else [own_match, *(match for match in ranked if match.sql != own_match.sql)]

    def _find_own(self, concepts: Mapping[MaskedQuestion, Concepts]) -> PatternMatch | None:
        """Return the statement that was confirmed last for exactly this question, even if the gate holds it back."""
        for pattern in reversed(self._all.values()):
            if not pattern.is_current or pattern.wins <= pattern.losses:
                continue
            for masked, masked_concepts in concepts.items():
                relabelled = pattern.relabel(masked)
                if relabelled is not None and (sql := pattern.fill(relabelled, masked_concepts)) is not None:
                    question = pattern.restate(relabelled)
                    return PatternMatch(sql, _OWN_CONFIDENCE, 1.0, pattern, question, is_own=True)
        return None

    def _rank(
        self, context: QuestionContext, concepts: Mapping[MaskedQuestion, Concepts], meanings: Mapping[str, float]
    ) -> list[tuple[float, LearnedPattern, MaskedQuestion]]:
        """Return the patterns that resemble a question, most similar first, with their similarity and best mask."""
        best: dict[str, tuple[float, MaskedQuestion]] = {}
        for masked in concepts:
            for pattern, by_words in self._measure(masked):
                by_meaning = meanings.get(pattern.id, 0.0)
                if by_words < _MIN_WORD_SIMILARITY and not by_meaning:
                    continue
                similarity = max(by_words, (1 - _EMBEDDED) * by_words + _EMBEDDED * by_meaning)
                similarity *= 1.0 if pattern.masked.signature == masked.signature else _OTHER_SIGNATURE
                if pattern.id not in best or best[pattern.id][0] < similarity:
                    best[pattern.id] = similarity, masked
        nearest = sorted(best.items(), key=lambda item: -item[1][0])[:_MAX_COMPARED]
        ranked = []
        for pattern_id, (similarity, masked) in nearest:
            pattern = self._all[pattern_id]
            factor = compare_concepts(concepts[masked], pattern.concepts, context.reader.is_name)
            bonus = _SAME_VALUES if _have_same_values(pattern.masked, masked) else 0.0
            likeness = similarity * factor + bonus * (1 - similarity * factor)
            ranked.append((likeness * pattern.trust, pattern, masked))
        return sorted(ranked, key=lambda item: (-item[0], item[1].id))

    def find_similar(
        self, context: QuestionContext, pattern: LearnedPattern, min_similarity: float
    ) -> list[LearnedPattern]:
        """Return the active patterns with at least this similarity to a pattern, most similar first."""
        similar = []
        for other, by_words in self._measure(pattern.masked):
            if by_words >= min_similarity and other.id != pattern.id:
                similarity = by_words * compare_concepts(pattern.concepts, other.concepts, context.reader.is_name)
                if similarity >= min_similarity:
                    similar.append((similarity, other))
        return [other for _, other in sorted(similar, key=lambda item: (-item[0], item[1].id))]

    def _measure(self, masked: MaskedQuestion) -> Iterator[tuple[LearnedPattern, float]]:
        """Yield the active patterns whose masked question is similar, with the similarity of the words."""
        vectors = self._index.weigh(masked.text)
        for index, similarity in self._index.measure(vectors).items():
            pattern = self._all[self._indexed[index].id]
            if pattern.is_active and pattern.id not in self._recent:
                yield pattern, similarity
        for pattern_id, other in self._recent.items():
            if self._all[pattern_id].is_active:
                yield self._all[pattern_id], compare_vectors(vectors, other)


def _have_same_values(first: MaskedQuestion, second: MaskedQuestion) -> bool:
    """Return whether two questions name the same values, at least two, which rarely happens by chance."""
    values = [sorted(fold_text(slot.text) for slot in masked.slots) for masked in (first, second)]
    return len(values[0]) >= _MIN_VALUES and values[0] == values[1]


def _make_match(sql: str, votes: Sequence[_Vote], total: float) -> PatternMatch:
    """Return the match of a statement. Its similarity is that of its best pattern times its share of the votes."""
    nearest = max(votes, key=lambda vote: vote.similarity)
    share = sum(vote.similarity**_POWER for vote in votes) / total if total else 0.0
    similarity = min(nearest.similarity, 1.0) * share
    confidence = 1 / (1 + math.exp(-_STEEPNESS * (similarity - _EVEN)))
    question = nearest.pattern.restate(nearest.masked)
    return PatternMatch(sql, round(confidence, 4), similarity, nearest.pattern, question)
