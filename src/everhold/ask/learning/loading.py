"""Load what a scope has learned from its rows, and cache it while the rows and the tables are unchanged."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from everhold.ask.language.tokens import fold_text
from everhold.ask.learning.answering import LearnedMemory
from everhold.ask.learning.gate import add_lesson
from everhold.ask.learning.memory import PatternMemory
from everhold.ask.learning.patterns import LearnedPattern, QuestionContext, list_overridden
from everhold.ask.learning.rows import read_lesson, read_pattern
from everhold.ask.lessons import Lessons
from everhold.ask.reading import QuestionReader
from everhold.ask.sources.cache import WeightedCache
from everhold.ask.sources.lookup import find_project
from everhold.model import QueryLesson, QueryPattern, QueryRun, Scope
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

REJECTED = "rejected"
_MAX_REJECTED = 200

RowVersions = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class LoadedMemory:
    """The learned patterns and lessons of a scope, and the rows that they were read from, by their ids."""

    memory: LearnedMemory
    patterns: dict[str, QueryPattern] = field(default_factory=dict)
    lessons: dict[str, QueryLesson] = field(default_factory=dict)


class MemoryCache:
    """Caches what the recently used scopes have learned. It may be shared by threads."""

    def __init__(self, entries: WeightedCache[tuple[str, str | None, str | None], Any]) -> None:
        self._entries = entries

    def load(
        self, records: Records, scope: Scope, context: QuestionContext, revalidate: Callable[[LoadedMemory], bool]
    ) -> LoadedMemory:
        """Return what a scope has learned, from the cache if none of its rows and tables has changed.

        `revalidate` is called with what was loaded from the store. If it returns that it changed rows, they are loaded
        again.
        """
        key = scope.organization, find_project(scope), scope.user
        versions = _read_versions(records, scope)
        entry: tuple[RowVersions, QuestionReader, LoadedMemory] | None = self._entries.get(key)
        if entry is not None and entry[0] == versions and entry[1] is context.reader:
            return entry[2]
        loaded = load_memory(records, scope, context)
        if revalidate(loaded):
            versions, loaded = _read_versions(records, scope), load_memory(records, scope, context)
        self._entries.put(key, (versions, context.reader, loaded), 1 + len(loaded.patterns))
        return loaded


def load_memory(records: Records, scope: Scope, context: QuestionContext) -> LoadedMemory:
    """Load what was learned for a scope's project, both for all users and for the scope's user.

    What the user taught is used instead of what the project has for the same words.
    """
    patterns = {row.id: row for row in list_patterns(records, scope)}
    lessons = {row.id: row for row in list_lessons(records, scope)}
    readable = [pattern for row in patterns.values() if (pattern := read_pattern(context, row)) is not None]
    learned = [replace(item, is_of_project=patterns[item.id].user_id != scope.user) for item in readable]
    overridden = {pattern.id for pattern in list_overridden(learned)}
    unused = _list_overridden_lessons([patterns[pattern_id] for pattern_id in overridden], lessons.values())
    loaded_lessons = [
        lesson
        for row in lessons.values()
        if row.id not in unused and (lesson := read_lesson(context.reader.schema, row)) is not None
    ]
    memory = LearnedMemory(
        PatternMemory(pattern for pattern in learned if pattern.id not in overridden),
        reduce(add_lesson, loaded_lessons, Lessons()),
        tuple(_read_rejected(records, scope, context, list(patterns.values()))),
    )
    return LoadedMemory(memory, patterns, lessons)


def _list_overridden_lessons(overridden: Sequence[QueryPattern], lessons: Collection[QueryLesson]) -> set[str]:
    """Return the ids of lessons of the project that the scope's user does not use.

    They have the phrase of a lesson of the user, or come from the queries of overridden patterns and won only once.
    """
    queries = {row.metadata.get("query") for row in overridden}
    of_user = [row for row in lessons if row.user_id is not None and row.wins > row.losses]
    phrases = {fold_text(row.phrase) for row in of_user}
    doubtful = {row.id for row in lessons if row.wins <= row.losses + 1 and row.metadata.get("query") in queries}
    return {
        row.id for row in lessons if row.user_id is None and (fold_text(row.phrase) in phrases or row.id in doubtful)
    }


def list_patterns(records: Records, scope: Scope) -> list[QueryPattern]:
    """Return the rows of patterns that a scope uses: those of the project, then those of its user, oldest first."""
    rows = records.scan(QueryPattern, scope.organization, _list_conditions(scope), order="created_at")
    used = (row for row in rows if row.user_id in (None, scope.user))
    return sorted(used, key=lambda row: row.user_id is not None)


def list_lessons(records: Records, scope: Scope) -> list[QueryLesson]:
    """Return the rows of lessons that a scope uses: those of the project, then those of its user, oldest first."""
    rows = records.scan(QueryLesson, scope.organization, _list_conditions(scope), order="created_at")
    used = (row for row in rows if row.user_id in (None, scope.user))
    return sorted(used, key=lambda row: row.user_id is not None)


def _list_conditions(scope: Scope) -> list[Where]:
    """Return the conditions that limit rows to the scope's project."""
    return [Where("project_id", Op.EQ, find_project(scope))]


def _list_rejected_conditions(scope: Scope) -> list[Where]:
    return [*_list_conditions(scope), Where("feedback", Op.EQ, REJECTED)]


def _read_versions(records: Records, scope: Scope) -> RowVersions:
    names = ("id", "version")
    rows = [
        *records.columns(QueryPattern, scope.organization, names, _list_conditions(scope)),
        *records.columns(QueryLesson, scope.organization, names, _list_conditions(scope)),
        *records.columns(QueryRun, scope.organization, names, _list_rejected_conditions(scope)),
    ]
    return frozenset((str(row_id), int(version)) for row_id, version in rows)


def _read_rejected(
    records: Records, scope: Scope, context: QuestionContext, confirmed: Sequence[QueryPattern]
) -> Sequence[LearnedPattern]:
    """Return the rejected questions and their statements as inactive patterns.

    A statement that was confirmed for the same question after its rejection is left out.
    """
    runs = records.scan(
        QueryRun,
        scope.organization,
        _list_rejected_conditions(scope),
        order="created_at",
        descending=True,
        limit=_MAX_REJECTED,
    )
    rows = [
        QueryPattern(
            id=run.id, organization_id=run.organization_id, created_at=run.created_at, updated_at=run.updated_at,
            question=run.question, masked_question="", sql=run.sql, dialect=context.reader.dialect, fingerprint="",
            origin="seed",
        )
        for run in runs
        if run.sql is not None and run.metadata.get("user") in (None, scope.user) and not _is_revised(run, confirmed)
    ]  # fmt: skip
    patterns = [pattern for row in rows if (pattern := read_pattern(context, row)) is not None]
    return [replace(pattern, is_active=False) for pattern in patterns]


def _is_revised(run: QueryRun, confirmed: Sequence[QueryPattern]) -> bool:
    """Return whether a rejected statement was confirmed for the same question later."""
    question = fold_text(run.question)
    return any(
        row.sql == run.sql
        and row.wins > row.losses
        and row.updated_at > run.updated_at
        and fold_text(row.question) == question
        for row in confirmed
    )
