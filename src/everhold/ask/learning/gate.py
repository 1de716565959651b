"""The replay gate. A pattern or lesson is used only if it makes a confirmed question right and none wrong."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from everhold.ask.language.tokens import tokenize
from everhold.ask.learning.answering import choose_lessons, read_with_lessons
from everhold.ask.learning.memory import PatternMemory
from everhold.ask.learning.mining import Lesson
from everhold.ask.learning.patterns import LearnedPattern, QuestionContext
from everhold.ask.learning.slots import MaskedQuestion
from everhold.ask.lessons import Lessons, TaughtCondition, TaughtJoin, TaughtMetric, TaughtName, contains_phrase
from everhold.ask.reading import Readings
from everhold.ask.results import Rows, are_equal

LessonKind = TypeVar("LessonKind", TaughtName, TaughtCondition, TaughtJoin, TaughtMetric)
RunStatement = Callable[[str], Rows | None]
"""Returns the rows of a statement after the guard, None if it is refused or fails."""
_MAX_REPLAYED = 40
# The minimum similarity of masked questions at which a pattern can change the answer to another question. Below it, the
# vote of the pattern is too small, and its confidence is lower than `_MIN_CONFIDENCE`.
_MIN_SIMILARITY = 0.5
_MIN_CONFIDENCE = 0.9  # of a pattern that is ranked before the rules and answers the question
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class GateReport:
    """The result of a replay: the confirmed questions that a pattern or lesson makes right (gained) or wrong
    (broken)."""

    gained: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    replayed: int = 0

    @property
    def is_passed(self) -> bool:
        return bool(self.gained) and not self.broken

    def describe(self) -> str:
        """Return the report in words."""
        if self.broken:
            return f"it would break {self.broken[0]!r}"
        if not self.gained:
            return "it answers no confirmed question that was not answered before"
        return f"answers {self.gained[0]!r}, breaks none of {self.replayed} replayed"


class ReplayGate:
    """Replays confirmed questions about one schema. Readings and results are cached in the object."""

    def __init__(self, context: QuestionContext, run: RunStatement) -> None:
        self.context, self._run = context, run
        self._results: dict[str, Rows | None] = {}
        self._readings: dict[str, Readings] = {}
        self._masks: dict[str, list[MaskedQuestion]] = {}
        self._taught: dict[tuple[Lessons, str], str | None] = {}

    def run(self, sql: str) -> Rows | None:
        if sql not in self._results:
            self._results[sql] = self._run(sql)
        return self._results[sql]

    def read(self, question: str) -> Readings:
        """Return the readings of a question by the rules alone."""
        if question not in self._readings:
            self._readings[question] = self.context.reader.read(question, self.context.today)
        return self._readings[question]

    def _mask(self, question: str) -> list[MaskedQuestion]:
        if question not in self._masks:
            self._masks[question] = self.context.mask(question)
        return self._masks[question]

    def is_right(self, expected: str, sql: str | None) -> bool:
        """Return whether a statement returns the same rows as the confirmed statement `expected`."""
        if sql is None or sql == expected:
            return sql is not None
        rows, actual = self.run(expected), self.run(sql)
        return rows is not None and actual is not None and are_equal(rows, actual, is_ordered=False)

    def check_pattern(self, memory: PatternMemory, pattern: LearnedPattern) -> GateReport:
        """Replay the confirmed questions that a pattern could answer, with patterns only, with and without it."""
        extended = memory.put(replace(pattern, is_active=True))
        similar = memory.find_similar(self.context, pattern, _MIN_SIMILARITY)
        answerable = [other for other in similar if pattern.fill(other.masked, other.concepts) is not None]

        def answer(patterns: PatternMemory, confirmed: LearnedPattern) -> str | None:
            matches = patterns.propose(self.context, self._mask(confirmed.question), uses_own=False)
            return matches[0].sql if matches and matches[0].confidence >= _MIN_CONFIDENCE else None

        return self._replay([pattern, *answerable], partial(answer, memory), partial(answer, extended))

    def check_lesson(self, lessons: Lessons, lesson: Lesson, patterns: Sequence[LearnedPattern]) -> GateReport:
        """Replay the confirmed questions that a lesson may affect, by the rules with and without the lesson."""
        extended = add_lesson(lessons, lesson)
        affected = [pattern for pattern in patterns if _may_affect(lesson, pattern)]
        return self._replay(affected, partial(self.read_taught, lessons), partial(self.read_taught, extended))

    def read_taught(self, lessons: Lessons, pattern: LearnedPattern) -> str | None:
        """Return the statement that the rules with these lessons make of a pattern's question."""
        by_rules = self.read(pattern.question)
        relevant = choose_lessons(lessons, pattern.question, by_rules)
        key = relevant, pattern.question
        if key not in self._taught:
            with_lessons = read_with_lessons(self.context, relevant, pattern.question, by_rules)
            best = with_lessons[0] if with_lessons else by_rules.best
            self._taught[key] = best.sql if best is not None else None
        return self._taught[key]

    def _replay(
        self,
        patterns: Iterable[LearnedPattern],
        answer_before: Callable[[LearnedPattern], str | None],
        answer_after: Callable[[LearnedPattern], str | None],
    ) -> GateReport:
        """Compare the answers to the questions of patterns before and after a change."""
        gained, broken, count = [], [], 0
        for pattern in list(patterns)[:_MAX_REPLAYED]:
            count += 1
            old, new = answer_before(pattern), answer_after(pattern)
            if old == new:
                continue
            was_right, is_right = (self.is_right(pattern.template.sql, sql) for sql in (old, new))
            if is_right and not was_right:
                gained.append(pattern.question)
            elif was_right and not is_right:
                broken.append(pattern.question)
        return GateReport(tuple(gained), tuple(broken), count)


def _may_affect(lesson: Lesson, pattern: LearnedPattern) -> bool:
    """Return whether a question contains the phrase of a lesson, or its statement has both tables of a join."""
    if isinstance(lesson, TaughtJoin):
        words = set(_WORD.findall(pattern.template.sql.lower()))
        return {lesson.left.table.lower(), lesson.right.table.lower()} <= words
    return contains_phrase(tokenize(pattern.question), lesson.phrase)


def add_lesson(lessons: Lessons, lesson: Lesson) -> Lessons:
    """Return the lessons with one added. A lesson with the same id, or a metric of the same name, is replaced."""
    if isinstance(lesson, TaughtName):
        return replace(lessons, names=(*_leave_out(lessons.names, lesson), lesson))
    if isinstance(lesson, TaughtCondition):
        return replace(lessons, conditions=(*_leave_out(lessons.conditions, lesson), lesson))
    if isinstance(lesson, TaughtJoin):
        return replace(lessons, joins=(*_leave_out(lessons.joins, lesson), lesson))
    others = (metric for metric in _leave_out(lessons.metrics, lesson) if metric.ref != lesson.ref)
    return replace(lessons, metrics=(*others, lesson))


def _leave_out(lessons: Iterable[LessonKind], lesson: Lesson) -> Iterable[LessonKind]:
    return (other for other in lessons if other.lesson_id != lesson.lesson_id)
