"""Keep a question, its statement and what came of it, and find the last questions of a session."""

from datetime import datetime

from everhold import clock
from everhold.ask.asking import AskedQuestion
from everhold.ask.sources.lookup import find_project
from everhold.model import QueryRun, Scope
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

# How many questions a follow-up can build on.
_MAX_EARLIER = 5


def make_query_run(scope: Scope, asked: AskedQuestion, asked_at: datetime) -> QueryRun:
    """Return the row of a question that was answered."""
    answer = asked.answer
    return validate_row(
        QueryRun,
        {
            "id": clock.make_id("qry"),
            "organization_id": scope.organization,
            "created_at": asked_at,
            "updated_at": asked_at,
            "created_by_id": scope.actor,
            "project_id": find_project(scope),
            "session_id": scope.session,
            "question": answer.question,
            "sql": answer.sql,
            "status": "answered",
            "row_count": asked.result.row_count,
            "duration": asked.result.seconds,
            "confidence": min(max(answer.confidence, 0.0), 1.0),
            "alternatives": list(answer.alternatives),
        },
    )


def list_earlier_questions(records: Records, scope: Scope) -> list[str]:
    """Return the last questions that were asked in the scope's session, oldest first; none without a session."""
    if scope.session is None:
        return []
    where = [Where("session_id", Op.EQ, scope.session), Where("project_id", Op.EQ, find_project(scope))]
    rows = records.scan(QueryRun, scope.organization, where, order="created_at", descending=True, limit=_MAX_EARLIER)
    return [row.question for row in reversed(rows)]
