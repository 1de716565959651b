"""Make the row that records a question, and find the last questions of a session."""

from dataclasses import asdict
from datetime import datetime

from everhold import clock
from everhold.ask.asking import AskedQuestion
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.sources.lookup import find_project
from everhold.model import QueryRun, Scope
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

# The maximum number of earlier questions that a follow-up can build on.
_MAX_EARLIER = 5
# Choices are searched in the answers to this many of the last questions.
_MAX_RECENT = 20


def make_query_run(scope: Scope, asked: AskedQuestion, asked_at: datetime) -> QueryRun:
    """Return the row of a question with its statement and its outcome."""
    answer = asked.answer
    outcome = {
        "choice": asked.choice,
        "user": scope.user,
        "asked_on": asked.today.isoformat() if asked.today else None,
        "follows": asked.is_follow_up,
        "lessons": list(asked.reading.lesson_ids) if asked.reading else [],
        "origin": asked.reading.origin.value if asked.reading else None,
        "confirmed_by_another": bool(asked.reading and asked.reading.is_shared),
        "choices": [{"text": str(choice), "sql": choice.sql} for choice in answer.choices],
        "not_understood": [asdict(problem) for problem in answer.not_understood],
        "language_model": asked.model_use.to_document() if asked.model_use else None,
    }
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
            "sql": answer.sql or None,
            "status": answer.status.value,
            "row_count": asked.result.row_count if asked.result else None,
            "duration": asked.result.seconds if asked.result else None,
            "confidence": min(max(answer.confidence, 0.0), 1.0),
            "alternatives": list(answer.alternatives),
            "pattern_id": asked.reading.pattern_id if asked.reading else None,
            "metadata": {name: value for name, value in outcome.items() if value},
        },
    )


def list_offered_statements(records: Records, scope: Scope, question: str) -> list[str]:
    """Return the statements of the choices that the scope's last answer to a question offered; none without choices."""
    where = [Where("project_id", Op.EQ, find_project(scope)), Where("session_id", Op.EQ, scope.session)]
    rows = records.scan(QueryRun, scope.organization, where, order="created_at", descending=True, limit=_MAX_RECENT)
    same_question_rows = [row for row in rows if row.question == question and row.created_by_id == scope.actor]
    offered = [row.metadata["choices"] for row in same_question_rows if row.metadata.get("choices")]
    return [str(choice["sql"]) for choice in offered[0]] if offered else []


def list_earlier_questions(records: Records, scope: Scope, choosing: str | None = None) -> list[EarlierQuestion]:
    """Return the last questions that were answered in the scope's session, oldest first; none without a session.

    `choosing` is the question for which the user makes a choice. If it is the last question, it is left out, because it
    is asked again.
    """
    if scope.session is None:
        return []
    where = [Where("session_id", Op.EQ, scope.session), Where("project_id", Op.EQ, find_project(scope))]
    rows = records.scan(QueryRun, scope.organization, where, order="created_at", descending=True, limit=_MAX_EARLIER)
    earlier = [EarlierQuestion(row.question, row.sql) for row in reversed(rows) if row.sql is not None]
    return earlier[:-1] if earlier and earlier[-1].text == choosing else earlier
