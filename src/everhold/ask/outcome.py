"""What became of a question: answered, to be clarified, or not understood; and the readings to choose among."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from everhold.ask.reading import QuestionReading, ReadingOrigin

MAX_CHOICES = 3
UNKNOWN = "is not a column, table or value here"


@dataclass(frozen=True)
class OutcomeLimits:
    """When a question is answered. Margins are differences of scores, the other limits are confidences.

    Readings within `tied` of the best are offered, however sure it is; those within `close` if its confidence is below
    `uncertain`. Nothing is run if it is below `hopeless`. Readings of different origins are offered if their
    confidences differ by less than `near`.
    """

    tied: float
    close: float
    uncertain: float
    hopeless: float
    near: float = 0.1

    def is_close(self, margin: float, confidence: float) -> bool:
        return margin < self.tied or (margin < self.close and confidence < self.uncertain)


# `everhold eval fit-sql` prints what each choice of limits is worth on databases that were left out, see
# docs/evaluation.md. These ask less often than the best ones there, at little cost.
LIMITS = OutcomeLimits(tied=0.02, close=0.5, uncertain=0.6, hopeless=0.2)


class AnswerStatus(StrEnum):
    """What became of a question.

    CLARIFY means that readings with different results are about as likely, CANNOT that nothing was run.
    """

    ANSWERED = "answered"
    ASSUMED = "answered with assumptions"
    CLARIFY = "clarify"
    CANNOT = "cannot"


@dataclass(frozen=True)
class AnswerChoice:
    """A reading that can be chosen by its number. `meanings` are those of words that mean something else in others."""

    number: int
    restatement: str
    sql: str
    meanings: tuple[str, ...] = ()

    def __str__(self) -> str:
        meanings = f" ({'; '.join(self.meanings)})" if self.meanings else ""
        return f"{self.restatement}{meanings}"


@dataclass(frozen=True)
class NotUnderstood:
    """Words of a question that stand for nothing in the data, why, and what is similar."""

    text: str
    reason: str
    closest: tuple[str, ...] = ()

    def __str__(self) -> str:
        start = f"{self.text!r} {self.reason}" if self.text else self.reason
        return f"{start}; closest: {', '.join(self.closest)}" if self.closest else start


def describe_problems(problems: Sequence[NotUnderstood]) -> str:
    """Return why a question is not answered, in one sentence."""
    plain = [problem.text for problem in problems if problem.reason == UNKNOWN and not problem.closest]
    others = [str(problem) for problem in problems if problem.text not in plain]
    if len(plain) > 1:
        quoted = [repr(text) for text in plain]
        others = [f"{', '.join(quoted[:-1])} and {quoted[-1]} are not columns, tables or values here", *others]
    elif plain:
        others = [f"{plain[0]!r} {UNKNOWN}", *others]
    return f"I cannot answer this: {'; '.join(others)}."


def is_rival(best: QuestionReading, other: QuestionReading) -> bool:
    """Say whether a reading is about as likely as the best one. Two that are worded the same cannot be told apart.

    Scores are comparable within the rules only, so readings of other origins are compared by confidence. How often a
    language model is right is not known, so whatever differs from it is offered. What a user confirmed for this very
    question has no rivals.
    """
    if best.is_confirmed:
        return False
    if best.origin is other.origin is ReadingOrigin.RULES:
        is_close = LIMITS.is_close(best.score - other.score, best.confidence)
    elif ReadingOrigin.MODEL in (best.origin, other.origin):
        is_close = other.confidence >= LIMITS.hopeless
    else:
        is_close = best.confidence - other.confidence < LIMITS.near
    return is_close and (other.words, other.bindings) != (best.words, best.bindings)


def make_choices(readings: Sequence[QuestionReading]) -> tuple[AnswerChoice, ...]:
    """Return the readings as numbered choices, each with the meanings in which it differs from another."""
    differing = _find_differing_words(readings)
    return tuple(
        AnswerChoice(
            number,
            reading.words,
            reading.sql,
            tuple(f"{word!r} = {reading.bindings[word]}" for word in differing if word in reading.bindings),
        )
        for number, reading in enumerate(readings, 1)
    )


def ask_back(readings: Sequence[QuestionReading]) -> str:
    """Return the question that lets the user choose. It names the word that is understood differently if it is one."""
    differing = _find_differing_words(readings)
    if len(differing) == 1 and all(differing[0] in reading.bindings for reading in readings):
        meanings = list(dict.fromkeys(reading.bindings[differing[0]] for reading in readings))
        return f"Does {differing[0]!r} mean {' or '.join(meanings)}?"
    return "Which of these do you mean?"


def _find_differing_words(readings: Sequence[QuestionReading]) -> list[str]:
    words = dict.fromkeys(word for reading in readings for word in reading.bindings)
    return [word for word in words if len({reading.bindings.get(word) for reading in readings}) > 1]
