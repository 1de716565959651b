"""List learned items for users, and revoke them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from everhold import clock
from everhold.ask.language_model.record import ModelRecord
from everhold.ask.learning.loading import list_lessons, list_patterns
from everhold.ask.learning.teaching import LearnedStatus
from everhold.errors import Argument, InvalidInput, NotFound, Remedy, Verb
from everhold.model import QueryLesson, QueryPattern, Scope
from everhold.model.announcement import make_announcement
from everhold.ports.records import Records
from everhold.schema.operations import Hide, Operation, Put

PATTERN, MODEL = "pattern", "model"


@dataclass(frozen=True)
class LearnedItem:
    """A learned query pattern, alias, metric or join, or the confidence in a language model.

    `text` is the masked question or the phrase, `meaning` the statement or what the phrase means. `why` says why it is
    used or not: what the replay gate decided, or what has changed since. `query` is the query whose verdict taught it.
    With a `user`, it is used for that user only.
    """

    id: str
    kind: str
    text: str
    meaning: str
    status: str
    origin: str
    wins: int
    losses: int
    why: str
    query: str | None
    author: str | None
    user: str | None
    created_at: datetime
    last_used: datetime | None = None


def describe_pattern_row(row: QueryPattern, disuse: str = "") -> LearnedItem:
    """Return the row of a pattern as a user sees it. `disuse` says why the tables of now do not allow its use."""
    return _describe(row, PATTERN, row.masked_question, row.sql, disuse)


def describe_lesson_row(row: QueryLesson, disuse: str = "") -> LearnedItem:
    """Return the row of a lesson as a user sees it. `disuse` says why the tables of now do not allow its use."""
    return _describe(row, row.kind, row.phrase, _describe_meaning(row), disuse)


def describe_records(models: Mapping[str, ModelRecord]) -> list[LearnedItem]:
    """Return an item with the confidence in each language model. It is computed from verdicts and cannot be revoked."""
    return [
        LearnedItem(
            name, MODEL, name, f"its statements are right with a chance of {record.confidence:.2f}",
            "active" if record.is_used else "held back", "verdicts", record.right, record.wrong, record.describe(),
            None, None, None, record.judged_at,
        )
        for name, record in models.items() if record.judged_at is not None
    ]  # fmt: skip


def _describe(row: QueryPattern | QueryLesson, kind: str, text: str, meaning: str, disuse: str) -> LearnedItem:
    is_retired = row.status == LearnedStatus.RETIRED
    why = "wrong at least as often as right" if is_retired else disuse or str(row.metadata.get("why") or "")
    return LearnedItem(
        row.id,
        kind,
        text,
        meaning,
        LearnedStatus.QUARANTINED.value if disuse and not is_retired else row.status,
        row.origin,
        row.wins,
        row.losses,
        why,
        row.metadata.get("query"),
        row.created_by_id,
        row.user_id,
        row.created_at,
        row.last_used,
    )


def _describe_meaning(row: QueryLesson) -> str:
    meaning = row.meaning
    name = ".".join(str(meaning[part]) for part in ("table", "column") if meaning.get(part))
    if row.kind == "join":
        return row.phrase
    if "formula" in meaning:
        text = str(meaning.get("text"))
        return text if meaning["formula"].get("columns") else f"{text} of {meaning.get('table')}"
    if row.kind == "metric":
        return f"{name} {meaning.get('operator')} {meaning.get('value')!r}"
    return f"{name} = {meaning['value']!r}" if meaning.get("value") is not None else name


def forget_learned(records: Records, scope: Scope, item_id: str, log_line: Put) -> LearnedItem:
    """Delete a learned item, so that it is no longer used. Raise NotFound if the scope has no such item.

    Raise InvalidInput if the scope has a user and the item was learned for the whole project.
    """
    patterns = [row for row in list_patterns(records, scope) if row.id == item_id]
    lessons = [row for row in list_lessons(records, scope) if row.id == item_id]
    if not patterns and not lessons:
        remedy = Remedy("{} lists what was learned", Verb("learned"))
        raise NotFound(f"nothing was learned with the id {item_id!r}", value=item_id, remedy=remedy)
    rows: Sequence[QueryPattern | QueryLesson] = [*patterns, *lessons]
    if rows[0].user_id != scope.user:
        fact = f"{item_id!r} was learned for all users of the project, not for user {scope.user!r}"
        raise InvalidInput(fact, value=item_id, remedy=Remedy("revoke it without {}", Argument("user")))
    now, deletion_id = clock.now(), clock.make_id("del")
    operations: list[Operation] = [Hide(type(row), (row.organization_id, row.id), deletion_id, now) for row in rows]
    operations.extend(Put(make_announcement(row, "delete")) for row in patterns)
    records.commit([*operations, log_line])
    return describe_pattern_row(patterns[0]) if patterns else describe_lesson_row(lessons[0])
