"""The replay gate. A pattern or lesson is used only if it makes a confirmed question right and none wrong."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
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
# vote of the pattern is too small, and its confidence is lower than `_SURE`.
_TRIGGER = 0.5
_SURE = 0.9  # the minimum confidence at which a pattern is ranked before the rules and answers the question
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
        after = memory.put(replace(pattern, is_active=True))
        similar = memory.find_similar(self.context, pattern, _TRIGGER)
        pairs = [pair for pair in similar if pattern.fill(pair.masked, pair.concepts) is not None]

        def answer(known: PatternMemory, pair: LearnedPattern) -> str | None:
            matches = known.propose(self.context, self._mask(pair.question), has_own=False)
            return matches[0].sql if matches and matches[0].confidence >= _SURE else None

        return self._replay([pattern, *pairs], lambda pair: answer(memory, pair), lambda pair: answer(after, pair))

    def check_lesson(self, lessons: Lessons, lesson: Lesson, pairs: Sequence[LearnedPattern]) -> GateReport:
        """Replay the confirmed questions that contain the phrase of a lesson, by the rules with and without the
        lesson."""
        after = add_lesson(lessons, lesson)
        triggered = [pair for pair in pairs if _is_triggered(lesson, pair)]
        return self._replay(
            triggered, lambda pair: self.read_taught(lessons, pair), lambda pair: self.read_taught(after, pair)
        )

    def read_taught(self, lessons: Lessons, pair: LearnedPattern) -> str | None:
        """Return the statement that the rules with these lessons make of a question."""
        by_rules = self.read(pair.question)
        relevant = choose_lessons(lessons, pair.question, by_rules)
        key = relevant, pair.question
        if key not in self._taught:
            with_lessons = read_with_lessons(self.context, relevant, pair.question, by_rules)
            best = with_lessons[0] if with_lessons else by_rules.best
            self._taught[key] = best.sql if best is not None else None
        return self._taught[key]

    def _replay(
        self,
        pairs: Iterable[LearnedPattern],
        before: Callable[[LearnedPattern], str | None],
        after: Callable[[LearnedPattern], str | None],
    ) -> GateReport:
        """Compare the answers to confirmed questions before and after a change."""
        gained, broken, count = [], [], 0
        for pair in list(pairs)[:_MAX_REPLAYED]:
            count += 1
            old, new = before(pair), after(pair)
            if old == new:
                continue
            was_right, is_right = (self.is_right(pair.template.sql, sql) for sql in (old, new))
            if is_right and not was_right:
                gained.append(pair.question)
            elif was_right and not is_right:
                broken.append(pair.question)
        return GateReport(tuple(gained), tuple(broken), count)


def _is_triggered(lesson: Lesson, pair: LearnedPattern) -> bool:
    if isinstance(lesson, TaughtJoin):
        return {lesson.left.table.lower(), lesson.right.table.lower()} <= set(_WORD.findall(pair.template.sql.lower()))
    return contains_phrase(tokenize(pair.question), lesson.phrase)


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
