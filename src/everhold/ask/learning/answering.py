"""Propose readings of a question from the patterns and lessons that a scope has learned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from everhold.ask.candidates import rank_together
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.frame import QueryFrame
from everhold.ask.frame_parts import list_tables
from everhold.ask.language.tokens import fold_text, tokenize
from everhold.ask.learning.frames import find_previous, read_frame
from everhold.ask.learning.memory import PatternMatch, PatternMemory
from everhold.ask.learning.patterns import LearnedPattern, QuestionContext
from everhold.ask.learning.slots import MaskedQuestion
from everhold.ask.lessons import Lessons, contains_phrase
from everhold.ask.reading import QuestionReading, ReadingOrigin, Readings
from everhold.ask.schema import AskSchema
from everhold.ask.wording.frames import describe_frame

_MAX_PROPOSALS = 3
_MIN_LEAD = 0.01  # a reading with lessons gets at least this much more confidence than the best reading without them


@dataclass(frozen=True)
class LearnedMemory:
    """All that a scope has learned: query patterns, lessons, and the questions whose answers users rejected."""

    patterns: PatternMemory = field(default_factory=lambda: PatternMemory(()))
    lessons: Lessons = field(default_factory=Lessons)
    rejected: tuple[LearnedPattern, ...] = ()


def find_rejected(context: QuestionContext, memory: LearnedMemory, question: str) -> dict[str, bool]:
    """Return the statements that users rejected for this question, or for a question that differs only in its values.

    They are mapped to whether they were rejected for this very question.
    """
    statements: dict[str, bool] = {}
    if not memory.rejected:
        return statements
    text = fold_text(question)
    for masked in context.mask(question):
        concepts = context.find_concepts(masked)
        similar = [pattern for pattern in memory.rejected if pattern.masked.text == masked.text]
        for pattern in similar:
            sql = pattern.fill(masked, concepts)
            if sql is not None:
                statements[sql] = statements.get(sql, False) or fold_text(pattern.question) == text
    return statements


def propose_readings(
    context: QuestionContext,
    memory: LearnedMemory,
    question: str,
    by_rules: Readings,
    *,
    masks: Sequence[MaskedQuestion] | None = None,
    meanings: Mapping[str, float] | None = None,
    previous: QueryFrame | None = None,
) -> list[QuestionReading]:
    """Return the readings that learned patterns and lessons propose for a question.

    If the question is a fragment that changes the previous question, patterns propose nothing, because its words do not
    say all that is asked.
    """
    with_lessons = read_with_lessons(context, memory.lessons, question, by_rules, previous)
    best = by_rules.best
    if best is not None and best.is_follow_up:
        return with_lessons
    matches = memory.patterns.propose(context, question if masks is None else masks, meanings)
    metrics = Lessons(metrics=memory.lessons.metrics)  # they are needed to describe statements in words
    schema = context.reader.teach(metrics).schema if metrics else context.reader.schema
    return [*with_lessons, *(_make_reading(schema, match) for match in matches[:_MAX_PROPOSALS])]


def rank_readings(
    context: QuestionContext, memory: LearnedMemory, question: str, by_rules: Readings,
    masks: Sequence[MaskedQuestion] | None = None,
) -> tuple[QuestionReading, ...]:  # fmt: skip
    """Return the readings of a question by the rules and by learned patterns and lessons, best first."""
    return rank_together(by_rules.readings, propose_readings(context, memory, question, by_rules, masks=masks))


def read_with_lessons(
    context: QuestionContext, lessons: Lessons, question: str, by_rules: Readings, previous: QueryFrame | None = None
) -> list[QuestionReading]:
    """Return the best reading by the rules with lessons, if a lesson applies and changes the statement; else none."""
    relevant = choose_lessons(lessons, question, by_rules)
    if not relevant:
        return []
    reading = context.reader.teach(relevant).read(question, context.today, previous).best
    best = by_rules.best
    if reading is None or (best is not None and reading.sql == best.sql):
        return []
    joins = tuple(join.lesson_id for join in relevant.joins)
    confidence = reading.confidence if best is None else max(reading.confidence, min(best.confidence + _MIN_LEAD, 1.0))
    return [replace(reading, confidence=round(confidence, 4), lesson_ids=(*reading.lesson_ids, *joins))]


def read_fragment(
    context: QuestionContext, lessons: Lessons, question: str, after: Sequence[EarlierQuestion]
) -> list[QuestionReading]:
    """Return the reading of a fragment whose previous question can only be read with learned metrics; else none."""
    conversation = " ".join([*(earlier.text for earlier in after), question])
    relevant = choose_lessons(lessons, conversation, Readings(()))
    if not relevant.metrics:
        return []
    reader = context.reader.teach(relevant)
    previous = find_previous(reader, after, context.today)
    reading = None if previous is None else reader.read(question, context.today, previous).best
    if reading is None or not reading.is_follow_up:
        return []
    return [replace(reading, lesson_ids=tuple(metric.lesson_id for metric in relevant.metrics))]


def choose_lessons(lessons: Lessons, question: str, by_rules: Readings) -> Lessons:
    """Return the lessons whose phrase occurs in a question, and the preferred joins if it may need any."""
    tokens = tokenize(question)
    names = tuple(name for name in lessons.names if contains_phrase(tokens, name.phrase))
    conditions = tuple(condition for condition in lessons.conditions if contains_phrase(tokens, condition.phrase))
    frame = by_rules.best.frame if by_rules.best is not None else None
    metrics = tuple(metric for metric in lessons.metrics if contains_phrase(tokens, metric.phrase))
    has_joins = bool(names or metrics or by_rules.unconnected or frame is None or len(set(list_tables(frame))) > 1)
    return Lessons(names, conditions, lessons.joins if has_joins else (), metrics)


def _make_reading(schema: AskSchema, match: PatternMatch) -> QuestionReading:
    """Return the reading of a match. It is described by the frame of its statement, if it has one."""
    template = match.pattern.template
    frame = read_frame(schema, match.sql, template.dialect)
    return QuestionReading(
        frame,
        match.sql,
        match.question if frame is None else describe_frame(schema, frame),
        match.confidence,
        assumptions=(f"answered like {match.pattern.masked.text!r}, which was confirmed",),
        origin=ReadingOrigin.PATTERN,
        pattern_id=match.pattern.id,
        metrics=schema.metrics if frame is not None else (),
        is_confirmed=match.is_own,
    )
