"""Measure how well an engine answers questions about lives, and whether its scores are probabilities.

A life is loaded memory by memory through `remember`, then every question is asked once through `recall` with default
settings. A second round of questions without a minimum score fills the reliability table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from everhold.engine import Everhold
from everhold.evaluation.lives import Life, LifeQuestion
from everhold.evaluation.reliability import ReliabilityTable, ScoredHit, tabulate_scores
from everhold.recall.hit import Hit
from everhold.views.view import View

FIGURES = ("top1", "recall", "precision", "stale_on_top", "silence", "lookalike", "hits")
# The reliability table counts this many hits per question, without regard to their scores.
UNFILTERED_HITS = 10
_DIGITS = 3


class ScoredMemory(NamedTuple):
    """A hit by the id that its memory has in the life."""

    id: str
    score: float


@dataclass(frozen=True)
class QuestionVerdict:
    """The hits of a question, and the figures that apply to it, each from 0 to 1."""

    life: Life
    question: LifeQuestion
    hits: tuple[ScoredMemory, ...]
    figures: Mapping[str, float]
    scored_hits: tuple[ScoredHit, ...] = ()
    """The hits without a minimum score, for the reliability table."""

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of the answer as phrases; empty if the answer is right."""
        figures = self.figures
        checks = {
            "answered": figures.get("silence") == 0,
            "nothing found": figures.get("top1") == 0 and not self.hits,
            "wrong on top": figures.get("top1") == 0 and bool(self.hits),
            "stale on top": figures.get("stale_on_top") == 1,
            "incomplete": bool(self.hits) and figures.get("recall", 1) < 1,
        }
        return tuple(fault for fault, applies in checks.items() if applies)

    def as_json(self) -> dict[str, Any]:
        """Return a failure as `everhold eval questions --failures --json` lists it."""
        returned = {hit.id for hit in self.hits}
        return {
            "life": self.life.name,
            "question": self.question.id,
            "type": self.question.type,
            "q": self.question.q,
            "answer": self.question.answer,
            "faults": list(self.faults),
            "missing": [memory_id for memory_id in self.question.expect if memory_id not in returned],
            "hits": [{"id": hit.id, "score": round(hit.score, _DIGITS)} for hit in self.hits],
        }


@dataclass(frozen=True)
class QuestionsReport:
    """The outcomes of all questions of all lives."""

    verdicts: tuple[QuestionVerdict, ...]

    @property
    def overall(self) -> dict[str, Any]:
        return _summarise(self.verdicts)

    @property
    def by_type(self) -> dict[str, dict[str, Any]]:
        return _summarise_groups(self.verdicts, lambda verdict: verdict.question.type)

    @property
    def by_life(self) -> dict[str, dict[str, Any]]:
        return _summarise_groups(self.verdicts, lambda verdict: verdict.life.name)

    @property
    def failures(self) -> tuple[QuestionVerdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.faults)

    @property
    def reliability(self) -> ReliabilityTable:
        return tabulate_scores(hit for verdict in self.verdicts for hit in verdict.scored_hits)

    @property
    def returned_reliability(self) -> ReliabilityTable:
        """The table of only the hits that default settings return."""
        return tabulate_scores(hit for verdict in self.verdicts for hit in score_hits(verdict.question, verdict.hits))

    def as_json(self) -> dict[str, Any]:
        """Return the document that `everhold eval questions --json` prints, without the files, the fold and the
        failures."""
        reliability = {**self.reliability.as_json(), "returned_error": self.returned_reliability.error}
        return {**self.overall, "by_type": self.by_type, "by_life": self.by_life, "reliability": reliability}


def evaluate(
    lives: Sequence[Life],
    open_engine: Callable[[], AbstractContextManager[Everhold]],
    progress: Callable[[int], None] = lambda _: None,
    prepare: Callable[[Everhold], object] = lambda _: None,
) -> QuestionsReport:
    """Load each life into an engine, in which its persona has no memories, and ask its questions.

    `progress` is called with the number of steps done since the last call; `count_steps` returns the number of all.
    `prepare` is called with each engine after its life was loaded and before the first question.
    """
    verdicts: list[QuestionVerdict] = []
    for life in lives:
        with open_engine() as engine:
            verdicts += _ask_life(engine, life, progress, prepare)
    return QuestionsReport(tuple(verdicts))


def count_steps(lives: Iterable[Life]) -> int:
    """Return how many memories are stored and questions asked; each question is asked twice."""
    return sum(len(life.memories) + 2 * len(life.questions) for life in lives)


def _ask_life(
    engine: Everhold, life: Life, progress: Callable[[int], None], prepare: Callable[[Everhold], object]
) -> list[QuestionVerdict]:
    view = engine.scope(user=life.persona)
    life_ids = _load_life(view, life, progress)
    prepare(engine)
    answers, unfiltered = [], []
    # All questions are asked in one round and then in a second, so that the second recalls cannot change first answers.
    for question in life.questions:
        answers.append(_name_hits(view.recall(question.q, asked_at=question.asked_at), life_ids))
        progress(1)
    for question in life.questions:
        hits = view.recall(question.q, asked_at=question.asked_at, minimum=0, k=UNFILTERED_HITS)
        unfiltered.append(score_hits(question, _name_hits(hits, life_ids)))
        progress(1)
    return [
        QuestionVerdict(life, question, hits, judge(question, [hit.id for hit in hits], life.lookalikes), scored_hits)
        for question, hits, scored_hits in zip(life.questions, answers, unfiltered, strict=True)
    ]


def _load_life(view: View, life: Life, progress: Callable[[int], None]) -> dict[str, str]:
    """Remember a life in time order; return the life's id of each stored memory by its stored id."""
    life_ids: dict[str, str] = {}
    for memory in life.memories:
        life_ids[view.remember(memory.text, **memory.fields).id] = memory.id
        progress(1)
    return life_ids


def _name_hits(hits: Iterable[Hit], life_ids: Mapping[str, str]) -> tuple[ScoredMemory, ...]:
    """Return each memory of the life once, best first; a fact derived from a memory counts as that memory."""
    scores: dict[str, float] = {}
    for hit in hits:
        source = str(hit.memory.provenance.get("memory", ""))
        memory_id = life_ids.get(hit.memory.id) or life_ids.get(source) or hit.memory.id
        scores.setdefault(memory_id, hit.score)
    return tuple(ScoredMemory(memory_id, score) for memory_id, score in scores.items())


def score_hits(question: LifeQuestion, hits: Iterable[ScoredMemory]) -> tuple[ScoredHit, ...]:
    """Return the score of each hit and whether it was right; without an answer, no hit is."""
    return tuple(ScoredHit(hit.score, hit.id in question.right) for hit in hits)


def judge(question: LifeQuestion, returned: Sequence[str], lookalikes: frozenset[str]) -> dict[str, float]:
    """Return the figures of a question from its hits, best first.

    A figure that does not apply is absent: precision without a hit, staleness without `stale`, silence with an answer.
    """
    if not question.expect:
        return {"silence": float(not returned), "hits": float(len(returned))}
    best = returned[0] if returned else None
    figures = {
        "top1": float(best in question.right),
        "recall": sum(memory_id in returned for memory_id in question.expect) / len(question.expect),
        "lookalike": float(best in lookalikes - question.right),
        "hits": float(len(returned)),
    }
    if returned:
        figures["precision"] = sum(memory_id in question.right for memory_id in returned) / len(returned)
    if question.stale:
        decisive = [memory_id for memory_id in returned if memory_id in {*question.expect, *question.stale}]
        figures["stale_on_top"] = float(bool(decisive) and decisive[0] in question.stale)
    return figures


def _summarise_groups(
    verdicts: Sequence[QuestionVerdict], name_group: Callable[[QuestionVerdict], str]
) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[QuestionVerdict]] = {}
    for verdict in verdicts:
        groups.setdefault(name_group(verdict), []).append(verdict)
    return {name: _summarise(group) for name, group in groups.items()}


def _summarise(verdicts: Sequence[QuestionVerdict]) -> dict[str, Any]:
    """Return the number of questions and the mean of each figure over the questions to which it applies."""
    means: dict[str, float | None] = {}
    for name in FIGURES:
        values = [verdict.figures[name] for verdict in verdicts if name in verdict.figures]
        means[name] = round(sum(values) / len(values), _DIGITS) if values else None
    return {"questions": len(verdicts), **means}
