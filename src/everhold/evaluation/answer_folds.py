"""Measure answers to the questions of each life with weights that are fitted to the other lives.

The candidates of every question are collected once. Then the weights are fitted once per life, and the candidates of
that life are judged with them, as recall judges them.
"""

from collections.abc import Callable, Mapping, Sequence

from everhold.engine import Everhold
from everhold.errors import InvalidInput
from everhold.evaluation.answer_fitting import Example, ask_questions, fit_weights
from everhold.evaluation.lives import Life
from everhold.evaluation.questions import (
    UNFILTERED_HITS,
    QuestionsReport,
    QuestionVerdict,
    ScoredMemory,
    judge,
    score_hits,
)
from everhold.recall.judging import Weights, find_bounds, make_weights
from everhold.recall.judging import judge as judge_candidates
from everhold.recall.recipe import HYBRID

_MIN_LIVES = 2
# The parts of the weights that count for whole lives.
_PARTS = ("topic", "update", "chance")
_MAX_HITS = 10


def cross_validate(
    engine: Everhold, lives: Sequence[Life], progress: Callable[[int], None] = lambda _: None
) -> QuestionsReport:
    """Ask each life's questions with weights fitted to the other lives. `engine` has no memories of the personas."""
    if len(lives) < _MIN_LIVES:
        raise InvalidInput(
            f"folds need at least {_MIN_LIVES} lives; got {len(lives)}", remedy="name more files, or leave out --folds"
        )
    examples: dict[str, dict[str, Example]] = {}
    for life in lives:
        examples[life.name] = {example.life_question.id: example for example in ask_questions(engine, life)}
        progress(len(life.questions))
    verdicts: list[QuestionVerdict] = []
    for life in lives:
        others = [
            example
            for name, life_examples in examples.items()
            if name != life.name
            for example in life_examples.values()
        ]
        weights = make_weights(fit_weights(others, (), _PARTS))
        verdicts += _answer_life(life, examples[life.name], weights)
    return QuestionsReport(tuple(verdicts))


def _answer_life(life: Life, examples: Mapping[str, Example], weights: Weights) -> list[QuestionVerdict]:
    verdicts = []
    for question in life.questions:
        ranked, minimum = _rank(examples[question.id], weights) if question.id in examples else ([], 0.0)
        hits = tuple(memory for memory in ranked[:_MAX_HITS] if memory.score >= minimum)
        figures = judge(question, [hit.id for hit in hits], life.lookalikes)
        verdicts.append(QuestionVerdict(life, question, hits, figures, score_hits(question, ranked[:UNFILTERED_HITS])))
    return verdicts


def _rank(example: Example, weights: Weights) -> tuple[list[ScoredMemory], float]:
    """Return the candidates, best first, and the lowest score of a hit."""
    scores = HYBRID.score_all(judge_candidates(example.candidates, example.profile, weights).totals)
    ranked = sorted(map(ScoredMemory, example.ids, scores), key=lambda memory: -memory.score)
    best = ranked[0].score
    return ranked, find_bounds(example.question, len(ranked), best).find_minimum(best)
