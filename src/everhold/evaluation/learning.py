"""Measure the accuracy on questions that were not confirmed, while more and more other questions are confirmed."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import sqlglot

from everhold.ask.language.tokens import fold_text
from everhold.ask.learning.answering import LearnedMemory, rank_readings
from everhold.ask.learning.teaching import teach_pair
from everhold.ask.learning.templates import list_literals
from everhold.ask.reading import ReadingOrigin
from everhold.evaluation.learning_data import DIALECT, LearningDatabase, LearningPair

CHECKPOINTS = (0, 50, 100, 200)
WRONG_SHARE = 0.1
_SEED = 11
_ID_NUMBERS = count(1)  # a memory that is taught in several steps must not get an id twice
_DIGITS = 4

Report = Callable[[int], None]
"""Called with the number of pairs that were taught since the last call."""


@dataclass(frozen=True)
class LearningOutcome:
    """The outcome of one question: whether memory changed the answer, and whether a literal leaked into it.

    A literal leaks if it comes from the question that the pattern was learned from, and not from the asked question.
    """

    pair: LearningPair
    is_right: bool
    was_right: bool
    is_seen: bool
    is_from_memory: bool
    leaks: bool


def teach_all(
    database: LearningDatabase, memory: LearnedMemory, pairs: Sequence[LearningPair], report: Report
) -> LearnedMemory:
    """Return a memory to which the pairs were taught one after the other, as the verb `confirm` does."""
    for pair in pairs:
        memory = teach_pair(
            database.gate, memory, pair.question, pair.sql, DIALECT, lambda kind: f"{kind}-{next(_ID_NUMBERS):08}"
        ).memory
        report(1)
    return memory


def ask_all(
    database: LearningDatabase, memory: LearnedMemory, pairs: Sequence[LearningPair], taught: Sequence[LearningPair]
) -> list[LearningOutcome]:
    """Return the outcome of questions that were not taught."""
    templates = {pair.template for pair in taught}
    return [_ask(database, memory, pair, pair.template in templates) for pair in pairs]


def _ask(database: LearningDatabase, memory: LearnedMemory, pair: LearningPair, is_seen: bool) -> LearningOutcome:
    by_rules = database.gate.read(pair.question)
    ranked = rank_readings(database.context, memory, pair.question, by_rules, database.mask(pair.question))
    best = next((reading for reading in ranked if database.gate.run(reading.sql) is not None), None)
    was_right = by_rules.best is not None and database.is_right(pair, by_rules.best.sql)
    pattern = memory.patterns.get(best.pattern_id or "") if best else None
    is_pattern = best is not None and best.origin is ReadingOrigin.PATTERN
    return LearningOutcome(
        pair,
        best is not None and database.is_right(pair, best.sql),
        was_right,
        is_seen,
        is_pattern or bool(best and best.lesson_ids),
        is_pattern and pattern is not None and best is not None and _leaks(best.sql, pattern.question, pair.question),
    )


def _leaks(sql: str, source: str, question: str) -> bool:
    """Return whether a literal of the SQL occurs in the question `source` that it was learned from, but not in
    `question`.
    """
    # The spaces make `in` compare whole words.
    source_words, question_words = f" {fold_text(source)} ", f" {fold_text(question)} "
    literals = [fold_text(node.name) for node in list_literals(sqlglot.parse_one(sql, read=DIALECT))]
    return any(text and f" {text} " in source_words and f" {text} " not in question_words for text in literals)


def split_by_question(pairs: Sequence[LearningPair], folds: int) -> list[list[LearningPair]]:
    """Return the folds of a random split."""
    shuffled = list(pairs)
    random.Random(_SEED).shuffle(shuffled)
    return [shuffled[number::folds] for number in range(folds)]


def split_by_template(pairs: Sequence[LearningPair], folds: int) -> list[list[LearningPair]]:
    """Return folds in which all questions with one template are in the same fold."""
    templates = sorted({pair.template for pair in pairs})
    random.Random(_SEED).shuffle(templates)
    fold_numbers = {template: number % folds for number, template in enumerate(templates)}
    return [[pair for pair in pairs if fold_numbers[pair.template] == number] for number in range(folds)]


def _list_other_pairs(folds: Sequence[Sequence[LearningPair]], index: int) -> list[LearningPair]:
    others = [pair for number, fold in enumerate(folds) if number != index for pair in fold]
    random.Random(_SEED + index).shuffle(others)
    return others


def measure_curve(database: LearningDatabase, folds: Sequence[Sequence[LearningPair]], report: Report) -> list[Any]:
    """Return the accuracy on each fold after more and more confirmed pairs of the other folds."""
    # Both by the number of the checkpoint. The last checkpoint of a fold is the number of all other pairs.
    outcomes: dict[int, list[LearningOutcome]] = {}
    confirmed_counts: dict[int, list[int]] = {}
    for index, fold in enumerate(folds):
        others = _list_other_pairs(folds, index)
        checkpoints = [*(checkpoint for checkpoint in CHECKPOINTS if checkpoint < len(others)), len(others)]
        memory, taught_count = LearnedMemory(), 0
        for number, checkpoint in enumerate(checkpoints):
            memory = teach_all(database, memory, others[taught_count:checkpoint], report)
            taught_count = checkpoint
            outcomes.setdefault(number, []).extend(ask_all(database, memory, fold, others[:checkpoint]))
            confirmed_counts.setdefault(number, []).append(checkpoint)
    return [
        {"confirmed": max(confirmed_counts[number]), **summarise_outcomes(of_checkpoint)}
        for number, of_checkpoint in outcomes.items()
    ]


def measure_split(
    database: LearningDatabase, folds: Sequence[Sequence[LearningPair]], report: Report
) -> list[LearningOutcome]:
    """Return the outcomes of each fold after all confirmed pairs of the other folds."""
    outcomes = []
    for index, fold in enumerate(folds):
        others = _list_other_pairs(folds, index)
        outcomes += ask_all(database, teach_all(database, LearnedMemory(), others, report), fold, others)
    return outcomes


def measure_noise(
    database: LearningDatabase, folds: Sequence[Sequence[LearningPair]], report: Report
) -> dict[str, Any]:
    """Return the loss of accuracy from wrong confirmations, and the remaining loss after each is corrected once."""
    noisy, corrected = [], []
    wrong_count = wrong_before = recovered = 0
    for index, fold in enumerate(folds):
        others = _list_other_pairs(folds, index)
        wrong_numbers = random.Random(_SEED).sample(range(len(others)), round(WRONG_SHARE * len(others)))
        wrong_pairs = {number: _make_wrong_pair(database, others, number) for number in wrong_numbers}
        pairs = [wrong_pairs.get(number, pair) for number, pair in enumerate(others)]
        memory = teach_all(database, LearnedMemory(), pairs, report)
        noisy += ask_all(database, memory, fold, others)
        truths = [others[number] for number in wrong_numbers]
        wrong_count += len(truths)
        wrong_before += sum(not outcome.is_right for outcome in ask_all(database, memory, truths, others))
        memory = teach_all(database, memory, truths, report)
        recovered += sum(outcome.is_right for outcome in ask_all(database, memory, truths, others))
        corrected += ask_all(database, memory, fold, others)
    return {
        "wrong_confirmations": wrong_count,
        "answered_wrong_before_correction": wrong_before,
        "recovered_by_one_correction": recovered,
        "accuracy_with_wrong": summarise_outcomes(noisy)["accuracy"],
        "accuracy_after_correction": summarise_outcomes(corrected)["accuracy"],
    }


def _make_wrong_pair(database: LearningDatabase, pairs: Sequence[LearningPair], number: int) -> LearningPair:
    """Return a question with the SQL of a different question that has a different result."""
    pair = pairs[number]
    others = [other for other in pairs if not database.is_right(pair, other.sql)]
    chosen = random.Random(_SEED + number).choice(others)
    return LearningPair(pair.question, chosen.sql, chosen.template, chosen.is_ordered)


def summarise_outcomes(outcomes: Sequence[LearningOutcome]) -> dict[str, Any]:
    """Return the figures of questions that were asked with memory."""
    seen = [outcome for outcome in outcomes if outcome.is_seen]
    unseen = [outcome for outcome in outcomes if not outcome.is_seen]
    learned = [outcome for outcome in outcomes if outcome.is_from_memory]
    return {
        "questions": len(outcomes),
        "accuracy": _share([outcome.is_right for outcome in outcomes]),
        "accuracy_without": _share([outcome.was_right for outcome in outcomes]),
        "seen_templates": len(seen),
        "accuracy_seen": _share([outcome.is_right for outcome in seen]),
        "accuracy_unseen": _share([outcome.is_right for outcome in unseen]),
        "from_memory": len(learned),
        "precision_of_memory": _share([outcome.is_right for outcome in learned]),
        "literal_leaks": sum(outcome.leaks for outcome in outcomes),
    }


def compare_outcomes(outcomes: Sequence[LearningOutcome]) -> dict[str, Any]:
    """Return how answers with memory compare with answers by rules only, with the p-value of McNemar's exact test."""
    gained = sum(outcome.is_right and not outcome.was_right for outcome in outcomes)
    broken = sum(outcome.was_right and not outcome.is_right for outcome in outcomes)
    return {
        "gained": gained,
        "broken": broken,
        "p_value": round(_test_mcnemar(gained, broken), _DIGITS),
        "is_worse": broken > gained,
    }


def _test_mcnemar(gained: int, broken: int) -> float:
    """Return the chance of a difference at least as large if memory made none."""
    total = gained + broken
    tail = sum(math.comb(total, number) for number in range(min(gained, broken) + 1))
    return min(1.0, 2 * tail / float(2**total))


def _share(flags: Sequence[bool]) -> float | None:
    return round(sum(flags) / len(flags), _DIGITS) if flags else None
