"""Compute what a verdict on an answer changes in the patterns and lessons of a scope, without any store."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from everhold.ask.language.tokens import fold_text
from everhold.ask.learning.answering import LearnedMemory, rank_readings
from everhold.ask.learning.gate import GateReport, ReplayGate, add_lesson
from everhold.ask.learning.mining import Lesson, list_joins, mine_lessons
from everhold.ask.learning.patterns import LearnedPattern, has_same_shape, make_pattern
from everhold.ask.lessons import Lessons, TaughtJoin, TaughtMetric

_MAX_TRIED = 10  # the maximum number of lessons to try for one verdict


class LearnedStatus(StrEnum):
    """Whether a pattern or lesson is used.

    HELD_BACK means that it did not pass the gate; its question is still replayed. QUARANTINED means that its statement
    must first run on the changed schema. RETIRED means that it lost at least as often as it won.
    """

    ACTIVE = "active"
    HELD_BACK = "held back"
    QUARANTINED = "quarantined"
    RETIRED = "retired"


@dataclass(frozen=True)
class TaughtPattern:
    """A pattern that was added or changed, its status, and the report of the gate."""

    pattern: LearnedPattern
    status: LearnedStatus
    report: GateReport | None = None


@dataclass(frozen=True)
class TaughtLesson:
    """A lesson that passed the gate, or that was used once more."""

    lesson: Lesson
    report: GateReport


@dataclass(frozen=True)
class Teaching:
    """The memory after a verdict, and what changed in it.

    `contradicted` are the ids of patterns that lost, or that the scope's user no longer uses.
    """

    memory: LearnedMemory
    patterns: tuple[TaughtPattern, ...] = ()
    lessons: tuple[TaughtLesson, ...] = ()
    contradicted: tuple[str, ...] = ()


def teach_pair(
    gate: ReplayGate,
    memory: LearnedMemory,
    question: str,
    sql: str,
    dialect: str,
    make_id: Callable[[str], str],
    doubtful: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Teaching:
    """Return the changes that a confirmed question and its statement cause.

    A pattern for the same question with another result is contradicted and loses, and the lessons that `doubtful` has
    for its id are dropped; they are learned again if they still help. A pattern of the same shape wins instead of being
    learned twice. If it does not answer this question, the question is learned as well, so that a correction always
    holds for the question that it corrects. Patterns of the project are never changed by a user's verdict: a
    contradicted one is dropped from the user's memory, and one of the same shape is learned again.
    """
    pattern = make_pattern(gate.context, make_id("qpt"), question, sql, dialect)
    contradicted = list(_find_contradicted(gate, memory, pattern))
    lost = [lose(other) for other in contradicted if not other.is_of_project]
    contradicted_ids = tuple(other.id for other in contradicted)
    doubtful_ids = {lesson_id for pattern_id in contradicted_ids for lesson_id in doubtful.get(pattern_id, ())}
    patterns = memory.patterns.drop({other.id for other in contradicted if other.is_of_project})
    memory = replace(memory, lessons=memory.lessons.drop(doubtful_ids), patterns=patterns)
    for taught in lost:
        patterns = patterns.put(taught.pattern)
    of_user = (other for other in patterns.patterns if other.is_active and not other.is_of_project)
    same_shape = next((other for other in of_user if has_same_shape(other, pattern)), None)
    added = []
    if same_shape is not None:
        added.append(TaughtPattern(replace(same_shape, wins=same_shape.wins + 1), LearnedStatus.ACTIVE))
        patterns = patterns.put(added[-1].pattern)
    if same_shape is None or not answers_question(gate, replace(memory, patterns=patterns), question, sql):
        report = gate.check_pattern(patterns, pattern)
        status = LearnedStatus.ACTIVE if report.is_passed else LearnedStatus.HELD_BACK
        added.append(TaughtPattern(replace(pattern, is_active=report.is_passed), status, report))
        patterns = patterns.put(added[-1].pattern)
    released = list(_reconsider(gate, replace(memory, patterns=patterns))) if lost else []
    for taught in released:
        patterns = patterns.put(taught.pattern)
    memory = replace(memory, patterns=patterns)
    lessons, taught_lessons = _teach_lessons(gate, memory, pattern, make_id)
    memory = replace(memory, lessons=lessons)
    return Teaching(memory, (*lost, *added, *released), tuple(taught_lessons), contradicted_ids)


def answers_question(gate: ReplayGate, memory: LearnedMemory, question: str, sql: str) -> bool:
    """Return whether the best reading with this memory has the same result as a statement."""
    ranked = rank_readings(gate.context, memory, question, gate.read(question))
    return bool(ranked) and gate.is_right(sql, ranked[0].sql)


def _find_contradicted(gate: ReplayGate, memory: LearnedMemory, pattern: LearnedPattern) -> Iterator[LearnedPattern]:
    """Yield the patterns of the same question with another result, without those that are retired."""
    text = fold_text(pattern.question)
    for other in memory.patterns.patterns:
        is_same = fold_text(other.question) == text and other.wins > other.losses
        if is_same and not gate.is_right(pattern.template.sql, other.template.sql):
            yield other


def lose(pattern: LearnedPattern) -> TaughtPattern:
    """Return a pattern with a loss added. It is retired if it has not won more often than it lost."""
    losses = pattern.losses + 1
    is_active = pattern.is_active and pattern.wins > losses
    status = LearnedStatus.ACTIVE if is_active else LearnedStatus.RETIRED
    return TaughtPattern(replace(pattern, losses=losses, is_active=is_active), status)


def _reconsider(gate: ReplayGate, memory: LearnedMemory) -> Iterator[TaughtPattern]:
    """Yield patterns that were held back and pass the gate now, because another pattern was retired."""
    patterns = memory.patterns
    for pattern in patterns.patterns:
        can_change = pattern.is_current and not pattern.is_of_project
        if can_change and not pattern.is_active and pattern.wins > pattern.losses:
            candidate = replace(pattern, is_active=True)
            report = gate.check_pattern(patterns, candidate)
            if report.is_passed:
                patterns = patterns.put(candidate)
                yield TaughtPattern(candidate, LearnedStatus.ACTIVE, report)


def _teach_lessons(
    gate: ReplayGate, memory: LearnedMemory, pattern: LearnedPattern, make_id: Callable[[str], str]
) -> tuple[Lessons, list[TaughtLesson]]:
    """Find lessons with which the rules answer a confirmed question that they misread.

    Return all lessons after that, and the new ones.
    """
    lessons, taught = memory.lessons, []
    confirmed = [other for other in memory.patterns.patterns if other.wins > other.losses]
    for lesson in _list_candidates(gate, lessons, pattern):
        if gate.is_right(pattern.template.sql, gate.read_taught(lessons, pattern)):
            break
        # The lesson is first tried alone: that result is cached, and most candidates fail here.
        alone = gate.read_taught(add_lesson(Lessons(), lesson), pattern)
        if not gate.is_right(pattern.template.sql, alone):
            continue
        report = gate.check_lesson(lessons, lesson, confirmed)
        if report.is_passed:
            taught_lesson = replace(lesson, lesson_id=make_id("lsn"))
            lessons = add_lesson(lessons, taught_lesson)
            taught.append(TaughtLesson(taught_lesson, report))
    return lessons, taught


def _list_candidates(gate: ReplayGate, lessons: Lessons, pattern: LearnedPattern) -> list[Lesson]:
    schema = gate.context.reader.schema
    known_joins = {(join.left, join.right) for join in lessons.joins}
    used = list_joins(schema, pattern.template.sql, pattern.template.dialect)
    joins = [TaughtJoin("", left, right) for left, right in used if (left, right) not in known_joins]
    mined = mine_lessons(schema, pattern, gate.read(pattern.question).best)
    others = [lesson for lesson in mined if not isinstance(lesson, TaughtMetric)][: max(0, _MAX_TRIED - len(joins))]
    # Metrics do not count for the limit, so that aliases are not displaced.
    return [*joins[:_MAX_TRIED], *(lesson for lesson in mined if isinstance(lesson, TaughtMetric) or lesson in others)]
