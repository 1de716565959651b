"""Store verdicts on answers (confirmed, corrected, rejected), and the patterns and lessons learned from them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlglot import exp

from everhold import clock
from everhold.ask.candidates import ScopedReadings
from everhold.ask.guard import find_read_tables, parse_query
from everhold.ask.language_model.record import read_records
from everhold.ask.learning.frames import read_frame
from everhold.ask.learning.gate import ReplayGate
from everhold.ask.learning.items import LearnedItem, describe_lesson_row, describe_pattern_row, describe_records
from everhold.ask.learning.loading import REJECTED, LoadedMemory, list_lessons, list_patterns
from everhold.ask.learning.quarantine import explain_disuse, list_needed_tables
from everhold.ask.learning.rows import (
    describe_meaning,
    describe_slots,
    list_column_types,
    list_lesson_columns,
    list_lesson_tables,
    list_used_tables,
    make_fingerprint,
)
from everhold.ask.learning.source import LearnedSource, make_context, make_runner
from everhold.ask.learning.teaching import (
    LearnedStatus,
    TaughtLesson,
    TaughtPattern,
    Teaching,
    answers_question,
    lose,
    teach_pair,
)  # fmt: skip
from everhold.ask.schema import AskSchema
from everhold.ask.sources.lookup import find_project
from everhold.ask.wording.frames import describe_frame
from everhold.errors import Argument, InvalidInput, NotFound, Remedy, StaleVersion, StatementRefused, Verb
from everhold.model import QueryLesson, QueryPattern, QueryRun, Scope
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Operation, Patch, Put

LoadSchemas = Callable[[Collection[str]], Sequence[AskSchema]]
"""Returns the tables with these names in each place of a scope."""


class AnswerVerdict(StrEnum):
    """The verdict of a user on an answer."""

    CONFIRMED = "confirmed"
    CORRECTED = "corrected"
    CHOSEN = "chosen"
    REJECTED = REJECTED


@dataclass(frozen=True)
class VerdictResult:
    """The query after a verdict, and what was learned from it or changed by it.

    `notes` are about the statement, such as a value in it that no row has.
    """

    query: QueryRun
    learned: tuple[LearnedItem, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Changes:
    """The operations of a verdict, and the learned items that they add or change."""

    operations: list[Operation] = field(default_factory=list)
    items: list[LearnedItem] = field(default_factory=list)


def require_query(records: Records, scope: Scope, query_id: str) -> QueryRun:
    """Return a query of a scope; raise NotFound if the scope has none with this id, or if another user asked it."""
    row = records.get(QueryRun, scope.organization, [query_id]).get(query_id)
    is_in_project = row is not None and row.project_id == find_project(scope)
    if row is None or not is_in_project or not _may_judge(row, scope):
        remedy = Remedy("pass the query of an answer of {}", Verb("ask"))
        raise NotFound(f"no query {query_id!r} in this scope", value=query_id, remedy=remedy)
    return row


def _may_judge(row: QueryRun, scope: Scope) -> bool:
    is_of_session = scope.session is None or row.session_id in (None, scope.session)
    return is_of_session and scope.user in (None, row.metadata.get("user"))


def find_choice(query: QueryRun, choice: int) -> str:
    """Return the statement of a choice that the answer to a query offered."""
    choices = query.metadata.get("choices") or []
    if not 1 <= choice <= len(choices):
        offered = f"pass a number from 1 to {len(choices)}"
        remedy = offered if choices else Remedy("the answer has no choices; pass {}", Argument("sql"))
        raise InvalidInput(f"there is no choice {choice}", value=choice, remedy=remedy)
    return str(choices[choice - 1]["sql"])


def require_figures(sql: str, dialect: str) -> None:
    """Raise StatementRefused for a statement whose result does not come from the data, such as SELECT 65.

    The statement has passed the guard.
    """
    if not find_read_tables(sql, dialect):
        raise StatementRefused("the statement reads no table", remedy="select from the tables that have the answer")
    if parse_query(sql, dialect).find(exp.Column, exp.Star, exp.AggFunc) is None:
        raise StatementRefused("the statement selects only constants", remedy="select columns, or count the rows")


def give_verdict(
    source: LearnedSource,
    scoped: ScopedReadings,
    query: QueryRun,
    verdict: AnswerVerdict,
    sql: str | None,
    log_line: Put,
) -> VerdictResult:
    """Store a verdict on a query, and the lessons learned from it. `sql` is the right statement, if it is known.

    Nothing is learned from a fragment that changed the previous question, because its words are only part of what was
    asked. Repeating a verdict has no effect.
    """
    gate = ReplayGate(make_context(scoped), make_runner(source.deps, source.engine, scoped))

    def attempt(_: int) -> VerdictResult:
        now = clock.now()
        loaded = source.load(scoped)
        if _is_repeated(gate, loaded, query, verdict, sql):
            return VerdictResult(query)
        writer = _VerdictWriter(source, scoped, loaded, query, verdict, now)
        changes = _Changes()
        if sql is not None and not query.metadata.get("follows"):
            dialect, doubtful = scoped.reader.dialect, writer.find_doubtful_lessons()
            teaching = teach_pair(gate, loaded.memory, query.question, sql, dialect, clock.make_id, doubtful)
            writer.add_teaching(changes, teaching)
        writer.add_outcome(changes)
        metadata = {**query.metadata, "right_sql": sql}
        values = {
            "feedback": verdict.value, "metadata": metadata, "updated_at": now, "last_updated_by_id": source.scope.actor
        }  # fmt: skip
        key = (query.organization_id, query.id)
        missing_rows = source.deps.make_missing_rows(source.scope, now)
        try:
            source.deps.records.commit([*missing_rows, *changes.operations, Patch(QueryRun, key, values), log_line])
        except StaleVersion as error:
            raise TryAgain("another caller changed what was learned") from error
        return VerdictResult(query.evolve(**values, version=query.version + 1), tuple(changes.items))

    return retry("store a verdict", attempt, CONFLICTS)


def _is_repeated(
    gate: ReplayGate, loaded: LoadedMemory, query: QueryRun, verdict: AnswerVerdict, sql: str | None
) -> bool:
    """Return whether a query already has this verdict, and none of its lessons was revoked later."""
    if query.feedback != verdict.value or query.metadata.get("right_sql") != sql:
        return False
    is_fragment = bool(query.metadata.get("follows"))
    return sql is None or is_fragment or answers_question(gate, loaded.memory, query.question, sql)


@dataclass(frozen=True)
class _VerdictWriter:
    """Converts the changes of a verdict into operations on rows."""

    source: LearnedSource
    scoped: ScopedReadings
    loaded: LoadedMemory
    query: QueryRun
    verdict: AnswerVerdict
    now: datetime

    def add_teaching(self, changes: _Changes, teaching: Teaching) -> None:
        for taught in teaching.patterns:
            row = self.loaded.patterns.get(taught.pattern.id)
            if row is None:
                self._put_pattern(changes, taught)
            else:
                self._patch_pattern(changes, row, taught)
        self._replace_lessons(changes, teaching)

    def _replace_lessons(self, changes: _Changes, teaching: Teaching) -> None:
        """Count a loss for lessons of contradicted patterns that were not learned again; add the new lessons."""
        queries = {self.loaded.patterns[pattern_id].metadata.get("query") for pattern_id in teaching.contradicted}
        doubtful = [row for row in self.loaded.lessons.values() if row.metadata.get("query") in queries]
        taught_lessons = [(lesson, describe_meaning(lesson.lesson)) for lesson in teaching.lessons]
        taught_meanings = [meaning for _, meaning in taught_lessons]
        learned_again = []
        for row in doubtful:
            meaning_of_row = (row.kind, row.phrase, row.meaning)
            if not self._may_change(row):
                continue
            if row.status == LearnedStatus.ACTIVE and meaning_of_row in taught_meanings:
                learned_again.append(meaning_of_row)
            elif row.status != LearnedStatus.RETIRED:
                self._patch_lesson(changes, row, is_right=False)
        for lesson, meaning in taught_lessons:
            if meaning not in learned_again:
                self._put_lesson(changes, lesson)

    def find_doubtful_lessons(self) -> dict[str, frozenset[str]]:
        """Return the lessons that one more loss retires, by the id of the pattern that the same query taught."""
        doubtful = [row for row in self.loaded.lessons.values() if row.wins <= row.losses + 1]
        return {
            pattern.id: frozenset(
                row.id for row in doubtful if row.metadata.get("query") == pattern.metadata.get("query")
            )
            for pattern in self.loaded.patterns.values()
        }

    def add_outcome(self, changes: _Changes) -> None:
        """Add a win or a loss to the patterns and lessons that made the answer, or that were learned from it."""
        is_right = self.verdict is AnswerVerdict.CONFIRMED
        changed_ids = {item.id for item in changes.items}
        for row in self._find_patterns():
            pattern = self.loaded.memory.patterns.get(row.id)
            if row.id in changed_ids or pattern is None:
                continue
            won = TaughtPattern(replace(pattern, wins=row.wins + 1), LearnedStatus(row.status))
            self._patch_pattern(changes, row, won if is_right else lose(pattern))
        for lesson in self._find_lessons():
            if lesson.id not in changed_ids:
                self._patch_lesson(changes, lesson, is_right)

    def _find_patterns(self) -> Iterator[QueryPattern]:
        for row in self.loaded.patterns.values():
            is_taught = row.metadata.get("query") == self.query.id and row.status != LearnedStatus.RETIRED
            if not self._may_change(row):
                continue
            if row.id == self.query.pattern_id or (is_taught and self.verdict is not AnswerVerdict.CONFIRMED):
                yield row

    def _find_lessons(self) -> Iterator[QueryLesson]:
        used = self.query.metadata.get("lessons") or []
        for row in self.loaded.lessons.values():
            is_taught = row.metadata.get("query") == self.query.id
            is_judged = row.id in used or (is_taught and self.verdict is AnswerVerdict.REJECTED)
            if is_judged and self._may_change(row):
                yield row

    def _may_change(self, row: QueryPattern | QueryLesson) -> bool:
        """Return whether a verdict changes a row: a user's verdict changes nothing that other users use."""
        return row.user_id == self.source.scope.user

    def _make_common_values(self, row_id: str) -> dict[str, Any]:
        scope = self.source.scope
        return {
            "id": row_id,
            "organization_id": scope.organization,
            "created_at": self.now,
            "updated_at": self.now,
            "created_by_id": scope.actor,
            "project_id": find_project(scope),
            "user_id": scope.user,
            "origin": self.verdict.value,
            "wins": 1,
        }

    def _put_pattern(self, changes: _Changes, taught: TaughtPattern) -> None:
        """Add the operations that store a taught pattern and its chunks to the changes."""
        pattern, schema = taught.pattern, self.scoped.reader.schema
        sql, dialect = pattern.template.sql, pattern.template.dialect
        why = "" if taught.report is None else taught.report.describe()
        row = validate_row(
            QueryPattern,
            {
                **self._make_common_values(pattern.id),
                "question": pattern.question,
                "masked_question": pattern.masked.text,
                "slots": describe_slots(pattern),
                "frame": self._describe_frame(sql, dialect),
                "sql": sql,
                "dialect": dialect,
                "fingerprint": make_fingerprint(schema, list_used_tables(sql, dialect)),
                "status": taught.status.value,
                "metadata": {
                    "query": self.query.id,
                    "why": why,
                    "columns": list_column_types(schema, sql, dialect),
                    "asked_on": self.scoped.today.isoformat(),
                },
            },
        )
        chunks = self.source.deps.make_chunks([row])[0]
        changes.operations.extend([Put(row), *map(Put, chunks), Put(make_announcement(row))])
        changes.items.append(describe_pattern_row(row))

    def _describe_frame(self, sql: str, dialect: str) -> dict[str, Any]:
        """Return a description of the statement's frame for the row. At each use, the frame is read from the SQL."""
        schema = self.scoped.reader.schema
        frame = read_frame(schema, sql, dialect)
        return {} if frame is None else {"entity": frame.entity, "words": describe_frame(schema, frame)}

    def _patch_pattern(self, changes: _Changes, row: QueryPattern, taught: TaughtPattern) -> None:
        pattern = taught.pattern
        values: dict[str, Any] = {
            "wins": pattern.wins,
            "losses": pattern.losses,
            "status": taught.status.value,
            "last_used": self.now,
            "updated_at": self.now,
        }
        if taught.report is not None:
            values["metadata"] = {**row.metadata, "why": taught.report.describe()}
        changes.operations.append(Patch(QueryPattern, (row.organization_id, row.id), values, version=row.version))
        changes.items.append(describe_pattern_row(row.evolve(**values)))

    def _put_lesson(self, changes: _Changes, taught: TaughtLesson) -> None:
        """Add the operation that stores a taught lesson to the changes."""
        lesson, schema = taught.lesson, self.scoped.reader.schema
        kind, phrase, meaning = describe_meaning(lesson)
        row = validate_row(
            QueryLesson,
            {
                **self._make_common_values(lesson.lesson_id),
                "kind": kind,
                "phrase": phrase,
                "meaning": meaning,
                "fingerprint": make_fingerprint(schema, list_lesson_tables(lesson)),
                "metadata": {
                    "query": self.query.id,
                    "why": taught.report.describe(),
                    "columns": list_lesson_columns(schema, lesson),
                },
            },
        )
        changes.operations.append(Put(row))
        changes.items.append(describe_lesson_row(row))

    def _patch_lesson(self, changes: _Changes, row: QueryLesson, is_right: bool) -> None:
        wins, losses = row.wins + is_right, row.losses + (not is_right)
        status = row.status if wins > losses else LearnedStatus.RETIRED.value
        values = {
            "wins": wins, "losses": losses, "status": status, "last_used": self.now, "updated_at": self.now
        }  # fmt: skip
        changes.operations.append(Patch(QueryLesson, (row.organization_id, row.id), values, version=row.version))
        changes.items.append(describe_lesson_row(row.evolve(**values)))


def list_learned(records: Records, scope: Scope, load_schemas: LoadSchemas) -> list[LearnedItem]:
    """Return what a scope has learned, the latest first. An item that cannot be used on the current tables says why."""
    patterns, lessons = list_patterns(records, scope), list_lessons(records, scope)
    schemas = load_schemas(list_needed_tables([*patterns, *lessons])) if patterns or lessons else []
    items = [
        *(describe_pattern_row(row, explain_disuse(schemas, row)) for row in patterns),
        *(describe_lesson_row(row, explain_disuse(schemas, row)) for row in lessons),
        *describe_records(read_records(records, scope)),
    ]
    return sorted(items, key=lambda item: (item.created_at, item.id), reverse=True)
