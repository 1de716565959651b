"""Find confirmed questions that resemble a question, as examples for a prompt."""

from everhold.ask.language.tokens import tokenize
from everhold.ask.language_model.prompt import ConfirmedExample
from everhold.ask.sources.lookup import find_project
from everhold.model import QueryPattern, Scope
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

_MAX_PATTERNS = 500
_MAX_EXAMPLES = 3


def find_examples(records: Records, scope: Scope, question: str) -> list[ConfirmedExample]:
    """Return the questions of the project's query patterns that share most words with a question, best first."""
    where = [Where("project_id", Op.EQ, find_project(scope)), Where("status", Op.EQ, "active")]
    rows = records.scan(
        QueryPattern, scope.organization, where, order="created_at", descending=True, limit=_MAX_PATTERNS
    )
    words = _list_stems(question)
    likeness = {row.id: _compare(words, _list_stems(row.question)) for row in rows}
    nearest = sorted((row for row in rows if likeness[row.id] > 0), key=lambda row: -likeness[row.id])
    return [ConfirmedExample(row.question, row.sql) for row in nearest[:_MAX_EXAMPLES]]


def _list_stems(text: str) -> frozenset[str]:
    return frozenset(token.stem for token in tokenize(text) if token.kind == "word")


def _compare(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of words that two questions have in common."""
    return len(first & second) / max(len(first | second), 1)
