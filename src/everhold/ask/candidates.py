"""Gather the candidate readings of a question, from the rules and from other sources, and rank them together."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import NamedTuple, Protocol

from everhold.ask.connections.dialects import list_translations
from everhold.ask.connections.places import DataPlace, PlaceReadings, explain_problems
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.frame import QueryFrame
from everhold.ask.guard import check_statement
from everhold.ask.outcome import LIMITS, NotUnderstood
from everhold.ask.problems import find_problems
from everhold.ask.reading import QuestionReader, QuestionReading, ReadingOrigin, Readings
from everhold.errors import StatementRefused
from everhold.model import TableMetadata
from everhold.ports.data_engine import CheckedStatement

_ONLY_REJECTED = NotUnderstood("", "the answer that was found was rejected before")
_REJECTED_FACTOR = 0.3  # the factor for the confidence of a reading that a user rejected


class ScopedReadings(NamedTuple):
    """The readings of a question by the rules, and the tables that it was read with.

    `after` are the earlier questions of the conversation. `previous` is the frame of the last earlier question; a
    fragment such as "and in 2023?" changes it. `place` is the place of the tables, and `others` has the readings of
    the question in each place of the scope, including this one.
    """

    tables: Sequence[TableMetadata]
    reader: QuestionReader
    readings: Readings
    today: date
    previous: QueryFrame | None = None
    place: DataPlace | None = None
    others: Sequence[PlaceReadings] = ()
    after: Sequence[EarlierQuestion] = ()

    @property
    def is_follow_up(self) -> bool:
        """Whether the best reading by the rules reads the question as a fragment that changes an earlier question.

        If the rules have no reading, this is true if the conversation has an earlier question with a frame.
        """
        best = self.readings.best
        return self.previous is not None if best is None else best.is_follow_up

    def check(self, reading: QuestionReading) -> CheckedStatement:
        """Return the statement of a reading, checked by the guard; raise StatementRefused if it may not run."""
        return self.check_sql(reading.sql)

    def check_sql(self, sql: str) -> CheckedStatement:
        """Return a statement on the scope's tables, checked by the guard; raise StatementRefused if it may not run."""
        columns = {table.name: [column.name for column in table.columns] for table in self.reader.schema.tables}
        return check_statement(sql, self.reader.dialect, columns)


class CandidateSource(Protocol):
    """Proposes readings of a question, which are ranked and run together with the readings by the rules."""

    def propose(self, question: str, scoped: ScopedReadings) -> Sequence[QuestionReading]:
        """Return readings, best first. Their SQL may be in the dialect of the tables or in DuckDB's; the caller checks
        it.

        `confidence` must be the chance that a reading is right, because readings of different origins are compared by
        it.
        """
        ...

    def explain_silence(self, question: str, scoped: ScopedReadings) -> Sequence[str]:
        """Return why the source does not propose what a user expects of it, a sentence for each reason."""
        ...


class FindRejected(Protocol):
    """Returns statements that users rejected as answers to a question, or to one that differs only in its values.

    They are mapped to whether they were rejected for this very question.
    """

    def __call__(self, question: str, scoped: ScopedReadings, /) -> Mapping[str, bool]: ...


class RankedCandidates(NamedTuple):
    """The readings of a question, best first, or why none of them may be run. `notes` are for the answer."""

    readings: Readings
    problems: Sequence[NotUnderstood]
    notes: Sequence[str] = ()


def gather_candidates(
    question: str,
    scoped: ScopedReadings,
    sources: Sequence[CandidateSource],
    find_rejected: FindRejected | None = None,
) -> RankedCandidates:
    """Return the readings by the rules and by all sources, ranked together.

    Readings by the rules are left out if words of the question are not understood. Proposals are left out if the guard
    refuses them or their confidence is too low to be run. Readings that users rejected come last. Nothing is run if
    only such readings are left and the best of them was rejected for this very question.
    """
    proposed = [reading for source in sources for reading in source.propose(question, scoped)]
    likely = [reading for reading in proposed if reading.confidence >= LIMITS.hopeless]
    proposals = [allowed for reading in likely if (allowed := _find_allowed(scoped, reading)) is not None]
    problems = find_problems(scoped.reader.schema, scoped.reader.values, question, scoped.readings)
    if scoped.place is not None:
        problems = explain_problems(question, problems, scoped.place, scoped.others)
    is_confirmed = any(proposal.is_confirmed for proposal in proposals)
    notes = [] if is_confirmed else [note for source in sources for note in source.explain_silence(question, scoped)]
    if problems and not proposals:
        return RankedCandidates(scoped.readings, problems, notes)
    by_rules = () if problems else scoped.readings.readings
    ranked = rank_together(by_rules, proposals)
    if find_rejected is not None:
        rejected = find_rejected(question, scoped)
        ranked = demote_rejected(_drop_misread(question, scoped, ranked, rejected), rejected)
        if ranked and rejected.get(ranked[0].sql):
            return RankedCandidates(scoped.readings, [_ONLY_REJECTED], notes)
    if notes:
        ranked = tuple(replace(reading, assumptions=(*reading.assumptions, *notes)) for reading in ranked)
    return RankedCandidates(replace(scoped.readings, readings=tuple(ranked)), (), notes)


def _drop_misread(
    question: str, scoped: ScopedReadings, readings: Sequence[QuestionReading], rejected: Collection[str]
) -> Sequence[QuestionReading]:
    """If the best reading was rejected, drop the other readings by the rules that do not understand all words.

    Otherwise such a reading would become the best.
    """
    if not rejected or not readings or readings[0].sql not in rejected:
        return readings
    schema, values = scoped.reader.schema, scoped.reader.values
    return [
        reading
        for reading in readings
        if reading.sql in rejected
        or reading.origin is not ReadingOrigin.RULES
        or not find_problems(schema, values, question, Readings((reading,)))
    ]


def demote_rejected(readings: Sequence[QuestionReading], rejected: Collection[str]) -> tuple[QuestionReading, ...]:
    """Return the readings with the rejected ones moved to the end and their confidence lowered."""
    others = [reading for reading in readings if reading.sql not in rejected]
    demoted = [
        replace(
            reading,
            confidence=round(_REJECTED_FACTOR * reading.confidence, 4),
            score=reading.score - 1.0,
            assumptions=(*reading.assumptions, "this answer was rejected before"),
        )
        for reading in readings
        if reading.sql in rejected
    ]
    return (*others, *demoted)


def rank_together(
    by_rules: Sequence[QuestionReading], proposals: Iterable[QuestionReading]
) -> tuple[QuestionReading, ...]:
    """Return the readings ordered by confidence, best first. Readings by the rules keep their order among themselves.

    Readings that a user confirmed for exactly this question come before all others. Readings with the same SQL become
    one reading. If they are of different origins, they confirm each other: the confidence of the one reading is the
    chance that not all of them are wrong.
    """
    ranked = list(by_rules)
    for proposal in sorted(proposals, key=lambda reading: -reading.confidence):
        position = next((index for index, reading in enumerate(ranked) if reading.sql == proposal.sql), None)
        if position is not None and ranked[position].origin is proposal.origin:
            continue
        added = proposal if position is None else confirm_reading(ranked.pop(position), proposal)
        less_confident = (index for index, reading in enumerate(ranked) if reading.confidence < added.confidence)
        ranked.insert(next(less_confident, len(ranked)), added)
    return tuple(sorted(ranked, key=lambda reading: not reading.is_confirmed))


def confirm_reading(reading: QuestionReading, other: QuestionReading) -> QuestionReading:
    """Return `reading` with a higher confidence, because `other`, which has a different origin, has the same result.

    Its origin becomes that of the reading with the higher confidence.
    """
    confidence = 1 - (1 - reading.confidence) * (1 - other.confidence)
    return replace(
        reading,
        confidence=round(confidence, 4),
        pattern_id=reading.pattern_id or other.pattern_id,
        origin=max(reading, other, key=lambda item: item.confidence).origin,
        is_confirmed=reading.is_confirmed or other.is_confirmed,
        is_shared=True,
    )


def _find_allowed(scoped: ScopedReadings, reading: QuestionReading) -> QuestionReading | None:
    """Return a proposal, translated into the dialect of the tables if necessary; None if the guard refuses it."""
    for translated in list_translations(reading, scoped.reader.dialect):
        with suppress(StatementRefused):
            scoped.check(translated)
            return translated
    return None
