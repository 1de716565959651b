"""From a question to readings of it, best first: frame, SQL and how sure it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from everhold.ask.frame import QueryFrame
from everhold.ask.grammar.building import build_frame
from everhold.ask.language.tokens import tokenize
from everhold.ask.linking.beam import Assignment, assign_mentions
from everhold.ask.linking.candidates import find_mentions
from everhold.ask.linking.names import NameIndex
from everhold.ask.schema import AskSchema
from everhold.ask.sql import write_sql
from everhold.ask.values import ValueIndex
from everhold.errors import InvalidInput

_MOST_ASSIGNMENTS = 12


@dataclass(frozen=True)
class QuestionReading:
    frame: QueryFrame
    sql: str
    score: float
    assignment: Assignment
    leftover: str


def read_question(schema: AskSchema, values: ValueIndex, question: str, today: date, previous: QueryFrame | None = None, dialect: str = "sqlite") -> list[QuestionReading]:
    tokens = tokenize(question)
    names = NameIndex(schema)
    mentions = find_mentions(schema, names, values, tokens, today)
    readings = {}
    for assignment in assign_mentions(schema, tokens, mentions)[:_MOST_ASSIGNMENTS]:
        built = build_frame(schema, assignment)
        if not built:
            continue
        frame, draft = built
        try:
            sql = write_sql(schema, frame, dialect)
        except InvalidInput:
            continue
        left = sum(code in "xCVNP" for code in draft.codes)
        score = assignment.score - 0.3 * left
        reading = QuestionReading(frame, sql, score, assignment, draft.codes)
        if sql not in readings or readings[sql].score < score:
            readings[sql] = reading
    return sorted(readings.values(), key=lambda r: -r.score)
