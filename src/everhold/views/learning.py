"""The verbs with which users judge answers about data, and list what was learned from these verdicts."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import everhold
from everhold.arguments.checks import ChoiceNumber, Identifier, ListLength, Question
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import Argument, InvalidInput, Remedy, Verb
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.data import DataVerbs

if TYPE_CHECKING:
    from everhold.ask.candidates import ScopedReadings
    from everhold.ask.learning.verdicts import AnswerVerdict
    from everhold.ask.schema import AskSchema
    from everhold.model import QueryRun


@check_verbs
class LearningVerbs(DataVerbs):
    """The verbs for verdicts on answers and for the lessons learned from them."""

    @log_as("update")
    def confirm(self, query: Identifier) -> "everhold.VerdictResult":
        """Say that an answer is right. `query` is `query` of the answer. Similar questions are then answered in the
        same way.

        The lesson belongs to the scope's project, and if the scope has a user only to that user. It is used only if it
        makes at least one more confirmed question right and no other one wrong. Raise NotFound if the scope has no such
        query.
        """
        from everhold.ask.learning.verdicts import AnswerVerdict

        return self._judge(query, AnswerVerdict.CONFIRMED)

    @log_as("update")
    def correct(
        self, query: Identifier, *, sql: Question | None = None, choice: ChoiceNumber | None = None
    ) -> "everhold.VerdictResult":
        """Say which answer is right, by a SELECT on the scope's tables or the number of one of the answer's choices.

        Raise StatementRefused if the guard does not allow the statement, QueryError if it fails.
        """
        from everhold.ask.learning.verdicts import AnswerVerdict

        if (sql is None) == (choice is None):
            remedy = Remedy("pass {} or {}", Argument("sql"), Argument("choice"))
            raise InvalidInput("a correction has either a statement or a choice", remedy=remedy)
        return self._judge(query, AnswerVerdict.CORRECTED if choice is None else AnswerVerdict.CHOSEN, sql, choice)

    @log_as("update")
    def reject(self, query: Identifier) -> "everhold.VerdictResult":
        """Say that an answer is wrong. The same question is then read differently, if there is another reading."""
        from everhold.ask.learning.verdicts import AnswerVerdict

        return self._judge(query, AnswerVerdict.REJECTED)

    @log_as("read")
    def learned(self, *, limit: ListLength = 1000) -> "Sequence[everhold.LearnedItem]":
        """Return what the scope has learned from verdicts, the latest first, and why each of it is used or not."""
        from everhold.ask.learning.verdicts import list_learned
        from everhold.views.data_deps import require_extra

        require_extra()
        items = list_learned(self._parts.records, self.scope, self._load_schemas)[:limit]
        self._log_call("read", {"learned": len(items)})
        return items

    @log_as("delete")
    def forget_learned(self, item: Identifier) -> "everhold.LearnedItem":
        """Revoke a lesson by its id, so that it is no longer used.

        InvalidInput if the scope has a user and the lesson was learned for the whole project.
        """
        from everhold.ask.learning.items import forget_learned

        line = self._make_line("delete", {"learned": item})
        return forget_learned(self._parts.records, self.scope, item, line)

    def _judge(
        self, query_id: str, verdict: "AnswerVerdict", sql: str | None = None, choice: int | None = None
    ) -> "everhold.VerdictResult":
        """Apply a verdict to an earlier answer.

        The right statement is `sql`, or that of the answer's choice with the number `choice`, or for a confirmation the
        answer's own.
        """
        from everhold.ask.asking import run_checked
        from everhold.ask.learning.unknown_values import note_unknown_values
        from everhold.ask.learning.verdicts import (
            AnswerVerdict,
            find_choice,
            give_verdict,
            require_figures,
            require_query,
        )
        from everhold.views.candidates import make_learned_source
        from everhold.views.data_deps import require_extra

        require_extra()
        query = require_query(self._parts.records, self.scope, query_id)
        if sql is None and choice is None and query.sql is None:
            remedy = Remedy("say what is right with {} and {}", Verb("correct"), Argument("sql"))
            raise InvalidInput("this question was not answered", value=query_id, remedy=remedy)
        source, readings = make_learned_source(self._parts, self.scope), self._read_again(query)
        reader = readings.reader
        if choice is not None:
            sql = find_choice(query, choice)
        if sql is not None:
            run_checked(source.deps, source.engine, readings, sql)  # what does not run teaches nothing
            require_figures(sql, reader.dialect)
        notes = [] if sql is None else note_unknown_values(reader.schema, reader.values, sql, reader.dialect)
        right_sql = query.sql if verdict is AnswerVerdict.CONFIRMED else sql
        line = self._make_line("update", {"query": query.id, "verdict": verdict.value})
        result = give_verdict(source, readings, query, verdict, right_sql, line)
        return replace(result, notes=tuple(notes))

    def _load_schemas(self, names: Collection[str]) -> "Sequence[AskSchema]":
        """Return the tables with some names in each place of the scope."""
        from everhold.ask.connections.places import split_places
        from everhold.ask.sources.content import load_reader, load_scope
        from everhold.views.data_deps import make_data_deps

        deps = make_data_deps(self._parts)
        schemas = []
        for place in split_places(load_scope(deps, self.scope)):
            tables = [table for table in place.tables.tables if table.table_name.lower() in names]
            schemas.append(load_reader(deps, place.tables, tables, place.dialect).schema)
        return schemas

    def _read_again(self, query: "QueryRun") -> "ScopedReadings":
        """Read the question of a query again, as of the day on which it was asked, and return the readings."""
        from everhold.ask.asking import read_in_scope
        from everhold.views.data_deps import make_data_deps

        zone = ZoneInfo(self._parts.settings.timezone)
        asked_on = query.metadata.get("asked_on")
        day = date.fromisoformat(asked_on) if asked_on else query.created_at.astimezone(zone).date()
        deps = make_data_deps(self._parts)
        return read_in_scope(deps, self.scope, query.question, day, self._find_question_tables)


class AsyncLearningVerbs(AsyncFacade):
    """The verbs of `LearningVerbs`, awaited."""

    confirm = Awaited(LearningVerbs.confirm)
    correct = Awaited(LearningVerbs.correct)
    reject = Awaited(LearningVerbs.reject)
    learned = Awaited(LearningVerbs.learned)
    forget_learned = Awaited(LearningVerbs.forget_learned)
