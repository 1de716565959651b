"""The figures of `everhold eval learning`: how much confirmed answers improve others, and what harm they do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from everhold.ask.learning.answering import LearnedMemory
from everhold.evaluation.learning import (
    WRONG_SHARE,
    Report,
    ask_all,
    compare_outcomes,
    measure_curve,
    measure_noise,
    measure_split,
    split_by_question,
    split_by_template,
    summarise_outcomes,
    teach_all,
)
from everhold.evaluation.learning_data import LearningDatabase, read_databases

# Of a folder with more databases, those with most questions are measured.
_MAX_DATABASES = 3


def choose_databases(folder: Path, limit: int | None) -> list[LearningDatabase]:
    """Return the databases that are measured. With `limit`, at most this many questions of each are used."""
    databases = read_databases(folder)[:_MAX_DATABASES]
    if limit is not None:
        for database in databases:
            database.pairs = split_by_question(database.pairs, 1)[0][:limit]
    return databases


def count_steps(databases: Sequence[LearningDatabase], folds: int) -> int:
    """Return about how many pairs are taught, for the length of a progress bar."""
    if len(databases) > 1:
        return sum(2 * (len(database.pairs) // 2) for database in databases)
    taught_count = (folds - 1) * len(databases[0].pairs)
    # Both splits and the measurement of noise teach all pairs, and the last corrects the wrong ones.
    return round((3 + WRONG_SHARE) * taught_count)


def measure_learning(databases: Sequence[LearningDatabase], folds: int, report: Report) -> dict[str, Any]:
    """Return the figures of one database over folds, or of several by halves."""
    if len(databases) > 1:
        return {"by_database": {database.name: _measure_halves(database, databases, report) for database in databases}}
    [database] = databases
    by_question = split_by_question(database.pairs, folds)
    by_template = measure_split(database, split_by_template(database.pairs, folds), report)
    return {
        "questions": len(database.pairs),
        "folds": folds,
        "by_question": measure_curve(database, by_question, report),
        "by_template": {**summarise_outcomes(by_template), **compare_outcomes(by_template)},
        "wrong_confirmations": measure_noise(database, by_question, report),
    }


def _measure_halves(
    database: LearningDatabase, databases: Sequence[LearningDatabase], report: Report
) -> dict[str, Any]:
    """Teach each half of the questions and measure the answers to the other half and to the other databases' questions.

    The guard should refuse the patterns of one database for the questions of a different database.
    """
    halves = split_by_question(database.pairs, 2)
    outcomes, others = [], []
    for taught, asked in (halves, reversed(halves)):
        memory = teach_all(database, LearnedMemory(), taught, report)
        outcomes += ask_all(database, memory, asked, taught)
        for other in databases:
            if other is not database:
                others += ask_all(other, memory, other.pairs, ())
    return {
        **summarise_outcomes(outcomes),
        **compare_outcomes(outcomes),
        "other_databases": compare_outcomes(others),
    }
