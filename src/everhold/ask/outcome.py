"""Decide the outcome of a question: answered, to be clarified with choices, or not understood."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from everhold.ask.reading import QuestionReading, ReadingOrigin

MAX_CHOICES = 3
UNKNOWN = "is not a column, table or value here"


@dataclass(frozen=True)
class OutcomeLimits:
    """The limits that decide whether a question is answered. `tied` and `close` are differences of scores.

    The other limits are confidences. Readings within `tied` of the best reading are always offered as choices; readings
    within `close` if the confidence of the best is below `uncertain`. If that is below `hopeless`, nothing is run.
    Readings of different origins are offered if their confidences differ by less than `near`.
    """

    tied: float
    close: float
    uncertain: float
    hopeless: float
    near: float = 0.1

    def is_close(self, margin: float, confidence: float) -> bool:
        return margin < self.tied or (margin < self.close and confidence < self.uncertain)


# `everhold eval fit-sql` prints the results of different limits on databases that were left out of the fit, see
# docs/evaluation.md. These limits ask back less often than the best ones there, with almost as many right answers.
LIMITS = OutcomeLimits(tied=0.02, close=0.5, uncertain=0.6, hopeless=0.2)


class AnswerStatus(StrEnum):
    """The outcome of a question.

    CLARIFY means that readings with different results are about as likely. CANNOT means that nothing was run.
    """

    ANSWERED = "answered"
    ASSUMED = "answered with assumptions"
    CLARIFY = "clarify"
    CANNOT = "cannot"


@dataclass(frozen=True)
class AnswerChoice:
    """A reading that can be chosen by its number.

    `meanings` has an entry such as "'size' = the width" for each word that other choices understand differently.
    """

    number: int
    restatement: str
    sql: str
    meanings: tuple[str, ...] = ()

    def __str__(self) -> str:
        meanings = f" ({'; '.join(self.meanings)})" if self.meanings else ""
        return f"{self.restatement}{meanings}"


@dataclass(frozen=True)
class NotUnderstood:
    """Words of a question that were not understood, the reason, and similar names."""

    text: str
    reason: str
    closest: tuple[str, ...] = ()

    def __str__(self) -> str:
        start = f"{self.text!r} {self.reason}" if self.text else self.reason
        return f"{start}; closest: {', '.join(self.closest)}" if self.closest else start


def describe_problems(problems: Sequence[NotUnderstood]) -> str:
    """Return why a question is not answered, in one sentence."""
    unknown = [problem.text for problem in problems if problem.reason == UNKNOWN and not problem.closest]
    reasons = [str(problem) for problem in problems if problem.text not in unknown]
    if len(unknown) > 1:
        quoted = [repr(text) for text in unknown]
        reasons = [f"{', '.join(quoted[:-1])} and {quoted[-1]} are not columns, tables or values here", *reasons]
    elif unknown:
        reasons = [f"{unknown[0]!r} {UNKNOWN}", *reasons]
    return f"I cannot answer this: {'; '.join(reasons)}."


def is_rival(best: QuestionReading, other: QuestionReading) -> bool:
    """Return whether a reading is about as likely as the best reading and is described differently.

    Scores are comparable only between readings by the rules, so other readings are compared by confidence. It is not
    known well how often a language model is right, so readings that differ from a model's are always offered. A reading
    that a user confirmed for exactly this question has no rivals.
    """
    if best.is_confirmed:
        return False
    if best.origin is other.origin is ReadingOrigin.RULES:
        is_close = LIMITS.is_close(best.score - other.score, best.confidence)
    elif ReadingOrigin.MODEL in (best.origin, other.origin):
        is_close = other.confidence >= LIMITS.hopeless
    else:
        is_close = best.confidence - other.confidence < LIMITS.near
    return is_close and (other.restatement, other.bindings) != (best.restatement, best.bindings)


def make_choices(readings: Sequence[QuestionReading]) -> tuple[AnswerChoice, ...]:
    """Return the readings as numbered choices, each with the meanings of the words that they understand differently."""
    differing = _find_differing_words(readings)
    return tuple(
        AnswerChoice(
            number,
            reading.restatement,
            reading.sql,
            tuple(f"{word!r} = {reading.bindings[word]}" for word in differing if word in reading.bindings),
        )
        for number, reading in enumerate(readings, 1)
    )


def write_clarification(readings: Sequence[QuestionReading]) -> str:
    """Return the question that asks the user to choose.

    It names the word that is understood differently, if only one is.
    """
    differing = _find_differing_words(readings)
    if len(differing) == 1 and all(differing[0] in reading.bindings for reading in readings):
        meanings = list(dict.fromkeys(reading.bindings[differing[0]] for reading in readings))
        return f"Does {differing[0]!r} mean {' or '.join(meanings)}?"
    return "Which of these do you mean?"


def _find_differing_words(readings: Sequence[QuestionReading]) -> list[str]:
    words = dict.fromkeys(word for reading in readings for word in reading.bindings)
    return [word for word in words if len({reading.bindings.get(word) for reading in readings}) > 1]
