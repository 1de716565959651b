"""Read a question: return its readings, best first, each with a frame, SQL, a confidence and a description."""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from everhold.ask.confidence import Features, estimate_confidence, measure_features
from everhold.ask.domains import ValueDomains
from everhold.ask.frame import QueryFrame
from everhold.ask.frame_parts import list_tables
from everhold.ask.grammar.building import build_frame
from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.grammar.followup import patch_frame
from everhold.ask.grouping import sort_periods, sum_grouped_measures
from everhold.ask.language.tokens import Token, tokenize
from everhold.ask.lessons import Lessons, TaughtCondition
from everhold.ask.linking.beam import Assignment, assign_mentions
from everhold.ask.linking.candidates import find_mentions
from everhold.ask.linking.mention import COLUMN, TABLE, Mention
from everhold.ask.linking.names import NameIndex
from everhold.ask.schema import AskColumn, AskSchema
from everhold.ask.spelling import SpellingIndex, replace_words
from everhold.ask.sql import write_sql
from everhold.ask.values import ValueIndex
from everhold.ask.wording.assumptions import list_assumptions, list_bindings
from everhold.ask.wording.frames import describe_frame
from everhold.errors import InvalidInput
from everhold.ports.synonyms import SynonymSource

_MAX_ASSIGNMENTS = 12
# The penalty for each unknown word and each mention that the grammar did not use, and their codes.
_UNREAD_PENALTY = 0.3
_UNREAD_CODES = "xCVNP"
_MAX_READINGS = 4
# The codes of mentions, and of cues that change the result, such as "more than", "not" or "average".
_UNUSED_CODES = "CVNPg>wn$sma"
# The codes of numbers, periods, comparisons, shares and periods to group by. On the Spider data, no reading that
# ignores one of these is right, except for remarks such as "1 stands for yes".
_ESSENTIAL_CODES = "NP>w$g"
_FLAG_NUMBERS = ("0", "1")
# Unexplained words at the position where a question names what it asks for: after "show", "how many", "average" or at
# its start, and before "of", "in", "by", "per" or its end. The letters are the codes of `language/cues.py`.
_MISSING_HEAD = re.compile(r"(?:^|[L#am$d])(x+)(?=[fi=gbeh.,]|$)")


class ReadingOrigin(StrEnum):
    """The source of a reading: the grammar, a learned query pattern, or a language model."""

    RULES = "rules"
    PATTERN = "pattern"
    MODEL = "model"


@dataclass(frozen=True)
class QuestionReading:
    """One way to understand a question. `confidence` is the chance that it is right, by the fitted weights.

    `restatement` is the reading in plain words.

    A reading by a pattern or a model may have only SQL, and then no frame and no features. `pattern_id` is the query
    pattern that the reading was made from or that confirms it, `lesson_ids` are the lessons that it uses, and `metrics`
    the metrics that its frame may name. `is_confirmed` says that a user confirmed or entered the statement for exactly
    this question, `is_follow_up` that the question is a fragment that changes the previous question, and `is_shared`
    that sources of different origins have the same result.

    `bindings` maps each word or phrase to the meaning it was given. `unexplained` are words without a meaning, and
    `missing_heads` those of them that should name what the question asks for. `unlinked_quotes` are quoted texts that
    are in no column, and `unlinked_names` are such names. `unused` are words with a meaning that the grammar did not
    use, and `ignored` those of them that change the meaning of the question.
    """

    frame: QueryFrame | None
    sql: str
    restatement: str
    confidence: float
    score: float = 0.0
    features: Features | None = None
    assumptions: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    bindings: Mapping[str, str] = field(default_factory=dict)
    missing_heads: tuple[str, ...] = ()
    unlinked_quotes: tuple[str, ...] = ()
    unlinked_names: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    origin: ReadingOrigin = ReadingOrigin.RULES
    pattern_id: str | None = None
    lesson_ids: tuple[str, ...] = ()
    metrics: tuple[AskColumn, ...] = ()
    is_confirmed: bool = False
    is_follow_up: bool = False
    is_shared: bool = False


@dataclass(frozen=True)
class Readings:
    """The readings of a question, best first; none if no part of it was recognised.

    `unconnected` are the tables of the likeliest reading if no keys connect them, so that it has no SQL.
    """

    readings: tuple[QuestionReading, ...]
    unconnected: tuple[str, ...] = ()

    @property
    def best(self) -> QuestionReading | None:
        return self.readings[0] if self.readings else None

    @property
    def alternatives(self) -> tuple[QuestionReading, ...]:
        return self.readings[1:]


class _ScoredDraft(NamedTuple):
    """A frame with its score, and the draft and the assignment of meanings from which it was built."""

    score: float
    frame: QueryFrame
    draft: FrameDraft
    assignment: Assignment


class QuestionReader:
    """Reads questions about one schema. One reader may be shared by threads."""

    def __init__(
        self,
        schema: AskSchema,
        values: ValueIndex,
        dialect: str = "sqlite",
        synonyms: Sequence[SynonymSource] = (),
    ) -> None:
        self.schema, self.values, self.dialect = schema, values, dialect
        self._names = NameIndex(schema, synonyms)
        self._spelling = SpellingIndex(schema)
        self._lessons = Lessons()

    @cached_property
    def domains(self) -> ValueDomains:
        """The domains of the columns. Columns of one domain have values of the same kind."""
        return ValueDomains(self.schema, self.values)

    def teach(self, lessons: Lessons) -> "QuestionReader":
        """Return a reader that also uses these lessons. It shares the indexes of this reader."""
        reader = copy(self)
        reader._lessons = lessons.choose_known(self.schema)
        reader.schema = reader._lessons.extend(self.schema)
        return reader

    def read(self, question: str, today: date, previous: QueryFrame | None = None) -> Readings:
        """Return the readings of a question. With `previous`, a fragment such as "only 2014" changes that frame.

        If unexplained words may be misspelled, they are corrected, and the question is read again.
        """
        readings = self._read(question, today, previous)
        unknown = readings.best.unexplained if readings.best else [token.text for token in tokenize(question)]
        proposals = {word: self._spelling.find_correction(word) for word in unknown}
        corrections = [(word, correction) for word, correction in proposals.items() if correction is not None]
        if not corrections:
            return readings
        corrected_readings = self._read(replace_words(question, corrections), today, previous)
        is_better = corrected_readings.best is not None and len(corrected_readings.best.unexplained) < len(unknown)
        return _add_corrections(corrected_readings, corrections) if is_better else readings

    def find_mentions(self, tokens: Sequence[Token], today: date) -> list[Mention]:
        """Return all possible mentions in a question, including overlapping ones."""
        mentions = find_mentions(self.schema, self._names, self.values, tokens, today)
        learned_names = list(self._lessons.find_names(tokens))
        metrics = {metric.ref for metric in self.schema.metrics}
        learned_metrics = [mention for mention in learned_names if mention.column in metrics]
        return [*(mention for mention in mentions if not _is_replaced(mention, learned_metrics)), *learned_names]

    def is_name(self, word: str) -> bool:
        """Return whether a stem is a word in the name of a table or a column."""
        return self._names.has_word(word)

    def _read(self, question: str, today: date, previous: QueryFrame | None) -> Readings:
        """Return the readings of a question: assign meanings to its words, build frames, and rank the resulting SQL."""
        tokens, conditions = self._lessons.take_conditions(tokenize(question))
        mentions = self.find_mentions(tokens, today)
        sql_by_frame: dict[QueryFrame, str | None] = {}  # several assignments often lead to the same frame
        best_drafts: dict[str, _ScoredDraft] = {}  # by their SQL
        unconnected: tuple[str, ...] = ()
        for assignment in assign_mentions(self.schema, tokens, mentions)[:_MAX_ASSIGNMENTS]:
            for plain_frame, draft in self._build(assignment, previous):
                frame = _add_conditions(plain_frame, conditions)
                if frame is None:
                    continue
                if frame not in sql_by_frame:
                    sql_by_frame[frame] = self._write(frame)
                sql = sql_by_frame[frame]
                if sql is None and not unconnected:
                    unconnected = tuple(dict.fromkeys(list_tables(frame)))
                score = assignment.score - _UNREAD_PENALTY * sum(code in _UNREAD_CODES for code in draft.codes)
                if sql and (sql not in best_drafts or best_drafts[sql].score < score):
                    best_drafts[sql] = _ScoredDraft(score, frame, draft, assignment)
        ranked = sorted(best_drafts.items(), key=lambda item: item[1].score, reverse=True)[:_MAX_READINGS]
        scores = [scored.score for _, scored in ranked]
        readings = [self._make_reading(tokens, sql, scored, scores) for sql, scored in ranked]
        return Readings(tuple(_note_conditions(readings, conditions)), unconnected)

    def _build(self, assignment: Assignment, previous: QueryFrame | None) -> Iterator[tuple[QueryFrame, FrameDraft]]:
        patched = patch_frame(self.schema, assignment, previous) if previous else None
        frame_and_draft = patched or build_frame(self.schema, assignment)
        if frame_and_draft:
            frame, draft = frame_and_draft
            yield sort_periods(self.schema, sum_grouped_measures(self.schema, frame)), draft

    def _write(self, frame: QueryFrame) -> str | None:
        try:
            return write_sql(self.schema, frame, self.dialect)
        except InvalidInput:
            return None

    def _make_reading(
        self, tokens: Sequence[Token], sql: str, scored: _ScoredDraft, scores: Sequence[float]
    ) -> QuestionReading:
        """Return the reading of a draft, with its confidence and the parts of the question that it does not use.

        `scores` are the scores of all readings of the question.
        """
        score, frame, draft, assignment = scored
        lower_scores = [other for other in scores if other < score]
        margin = score - max(lower_scores) if lower_scores else 1.0
        features = measure_features(frame, draft, assignment, margin, len(tokens))
        unexplained = [tokens[piece.start].text for piece in assignment.pieces if not piece.mention and not piece.cue]
        ignored = [text for text in _list_unused(draft, tokens, _ESSENTIAL_CODES) if text not in _FLAG_NUMBERS]
        return QuestionReading(
            frame=frame,
            sql=sql,
            restatement=describe_frame(self.schema, frame),
            confidence=estimate_confidence(features),
            score=score,
            features=features,
            assumptions=tuple(list_assumptions(self.schema, assignment, tokens)),
            unexplained=tuple(unexplained),
            bindings=list_bindings(self.schema, assignment, tokens),
            missing_heads=tuple(_list_missing_heads(draft, tokens)),
            unlinked_quotes=tuple(_list_unlinked_quotes(assignment)),
            unlinked_names=tuple(str(mention.value) for mention in assignment.mentions if mention.why == "unknown"),
            unused=tuple(_list_unused(draft, tokens, _UNUSED_CODES)),
            ignored=tuple(ignored),
            lesson_ids=tuple(mention.lesson_id for mention in assignment.mentions if mention.lesson_id),
            metrics=self.schema.metrics,
            is_follow_up=draft.is_fragment,
        )


def _is_replaced(mention: Mention, metrics: Sequence[Mention]) -> bool:
    """Return whether a guessed mention is replaced by a taught metric that includes its words."""
    is_guess = mention.kind in (TABLE, COLUMN) and mention.why != "name"
    return is_guess and any(metric.start <= mention.start and mention.end <= metric.end for metric in metrics)


def _add_corrections(readings: Readings, corrections: Sequence[tuple[str, str]]) -> Readings:
    notes = tuple(f"{word!r} is misspelled and means {correction!r}" for word, correction in corrections)
    corrected = [replace(reading, assumptions=(*notes, *reading.assumptions)) for reading in readings.readings]
    return replace(readings, readings=tuple(corrected))


def _add_conditions(frame: QueryFrame, conditions: Sequence[TaughtCondition]) -> QueryFrame | None:
    """Return a frame with the taught conditions added; None if a phrase has no condition on the frame's tables."""
    if not conditions:
        return frame
    tables = set(list_tables(frame))
    fitting = [condition for condition in conditions if condition.table in tables]
    if {condition.phrase for condition in conditions} - {condition.phrase for condition in fitting}:
        return None
    return replace(frame, where=(*frame.where, *(condition.predicate for condition in fitting)))


def _note_conditions(
    readings: Sequence[QuestionReading], conditions: Sequence[TaughtCondition]
) -> Iterator[QuestionReading]:
    """Yield the readings with notes about the taught conditions that they use."""
    ids = tuple(condition.lesson_id for condition in conditions)
    notes = tuple(f"{condition.phrase!r} means a condition that was learned" for condition in conditions)
    for reading in readings:
        yield replace(reading, lesson_ids=(*reading.lesson_ids, *ids), assumptions=(*reading.assumptions, *notes))


def _list_missing_heads(draft: FrameDraft, tokens: Sequence[Token]) -> Iterator[str]:
    for match in _MISSING_HEAD.finditer(draft.originals):
        for index in range(match.start(1), match.end(1)):
            yield tokens[draft.pieces[index].start].text


def _list_unused(draft: FrameDraft, tokens: Sequence[Token], codes: str) -> Iterator[str]:
    for piece, code in zip(draft.pieces, draft.codes, strict=True):
        if code in codes and piece.end > piece.start:
            yield " ".join(token.text for token in tokens[piece.start : piece.end])


def _list_unlinked_quotes(assignment: Assignment) -> Iterator[str]:
    for piece in assignment.pieces:
        if piece.is_quoted and piece.mention is not None and piece.mention.column is None:
            yield str(piece.mention.value)


def read_question(
    schema: AskSchema, values: ValueIndex, question: str, today: date, previous: QueryFrame | None = None,
    dialect: str = "sqlite",
) -> Readings:  # fmt: skip
    """Return the readings of a single question. For several questions about one schema, use a `QuestionReader`."""
    return QuestionReader(schema, values, dialect).read(question, today, previous)
