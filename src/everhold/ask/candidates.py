"""The candidates of a question: readings by the rules, and those that other sources propose, ranked together."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import NamedTuple, Protocol

from everhold.ask.connections.dialects import list_translations
from everhold.ask.connections.places import FILES_DIALECT, DataPlace, PlaceReadings, explain_problems
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.frame import QueryFrame
from everhold.ask.guard import check_statement
from everhold.ask.outcome import LIMITS, NotUnderstood
from everhold.ask.problems import find_problems
from everhold.ask.reading import QuestionReader, QuestionReading, ReadingOrigin, Readings
from everhold.errors import StatementRefused
from everhold.model import TableMetadata
from everhold.ports.data_engine import CheckedStatement

DIALECT = FILES_DIALECT
_REJECTED = 0.3  # what is left of the confidence of a reading that a user rejected


class ScopedReadings(NamedTuple):
    """The readings of a question by the rules, and the tables of the scope that it was read with.

    `after` are the questions before it, `previous` is the frame of the last of them, which a fragment changes. `place`
    is where the tables are, `others` are the readings in all places that the scope has.
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
        """Whether the rules read the question as a fragment, or understand neither it nor that it is a whole one."""
        best = self.readings.best
        return self.previous is not None if best is None else best.is_follow_up

    def check(self, reading: QuestionReading) -> CheckedStatement:
        """Return the statement of a reading after the guard; StatementRefused if it may not run."""
        return self.check_sql(reading.sql)

    def check_sql(self, sql: str) -> CheckedStatement:
        """Return a statement on the scope's tables after the guard; StatementRefused if it may not run."""
        columns = {table.name: [column.name for column in table.columns] for table in self.reader.schema.tables}
        return check_statement(sql, self.reader.dialect, columns)


class CandidateSource(Protocol):
    """Proposes readings of a question that are ranked and run together with those of the rules."""

    def propose(self, question: str, scoped: ScopedReadings) -> Sequence[QuestionReading]:
        """Return readings, best first. Their SQL is in the dialect of the tables or in DuckDB's, and is checked.

        `confidence` is the chance that a reading is right: readings of different origins are compared by it.
        """
        ...

    def explain_silence(self, question: str, scoped: ScopedReadings) -> Sequence[str]:
        """Return why the source does not propose what a user expects of it, a sentence for each reason."""
        ...


class FindRejected(Protocol):
    """Returns statements that users rejected as answers to a question."""

    def __call__(self, question: str, scoped: ScopedReadings, /) -> Collection[str]: ...


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
    """Return the readings of all sources in one order.

    Readings by the rules are left out if words of the question are not understood. Proposals are left out if the guard
    refuses them or their confidence is too low to be run. What users rejected comes last.
    """
    proposed = [reading for source in sources for reading in source.propose(question, scoped)]
    proposals = [
        allowed
        for reading in proposed
        if reading.confidence >= LIMITS.hopeless and (allowed := _find_allowed(scoped, reading)) is not None
    ]
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
    noted = [replace(reading, assumptions=(*reading.assumptions, *notes)) for reading in ranked] if notes else ranked
    return RankedCandidates(replace(scoped.readings, readings=tuple(noted)), (), notes)


def _drop_misread(
    question: str, scoped: ScopedReadings, readings: Sequence[QuestionReading], rejected: Collection[str]
) -> Sequence[QuestionReading]:
    """Return the readings without those that would replace a rejected one although they ignore words."""
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
    """Return the readings with those behind the others that users rejected."""
    kept = [reading for reading in readings if reading.sql not in rejected]
    demoted = [
        replace(
            reading,
            confidence=round(_REJECTED * reading.confidence, 4),
            score=reading.score - 1.0,
            assumptions=(*reading.assumptions, "this answer was rejected before"),
        )
        for reading in readings
        if reading.sql in rejected
    ]
    return (*kept, *demoted)


def rank_together(
    by_rules: Sequence[QuestionReading], proposals: Iterable[QuestionReading]
) -> tuple[QuestionReading, ...]:
    """Return the readings, best first: by confidence, but those of the rules stay in their order among each other.

    What a user confirmed for this very question comes before all others, however sure they are.
    Readings with the same SQL become one. If they are of different origins, they confirm each other: its confidence is
    the chance that not all of them are wrong.
    """
    ranked = list(by_rules)
    for proposal in sorted(proposals, key=lambda reading: -reading.confidence):
        place = next((place for place, reading in enumerate(ranked) if reading.sql == proposal.sql), None)
        if place is not None and ranked[place].origin is proposal.origin:
            continue
        added = proposal if place is None else confirm_reading(ranked.pop(place), proposal)
        lower = (place for place, reading in enumerate(ranked) if reading.confidence < added.confidence)
        ranked.insert(next(lower, len(ranked)), added)
    return tuple(sorted(ranked, key=lambda reading: not reading.is_confirmed))


def confirm_reading(reading: QuestionReading, other: QuestionReading) -> QuestionReading:
    """Return a reading with the confidence that it has if another source arrives at the same result.

    Its origin is that of the surer one, by whose measure it is compared with others.
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
    """Return a proposal in the dialect of the tables if the guard allows it."""
    for translated in list_translations(reading, scoped.reader.dialect):
        with suppress(StatementRefused):
            scoped.check(translated)
            return translated
    return None
