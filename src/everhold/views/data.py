"""The verbs on uploaded data files and their tables, and on questions about them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import everhold
from everhold import clock
from everhold.arguments.checks import Body, ChoiceNumber, HitCount, ListLength, PathText, Question
from everhold.arguments.verbs import check_verbs, log_as
from everhold.ask.earlier import EarlierQuestion
from everhold.model import FieldMetadata, Scope, Source, TableMetadata
from everhold.model.base import Entity
from everhold.progress import StepProgress, ignore_progress
from everhold.recall.pipeline import recall
from everhold.recall.request import Request
from everhold.schema.operations import Put
from everhold.tenancy.deletion import Deleted
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

if TYPE_CHECKING:
    from everhold.ask.asking import AskedQuestion


@check_verbs
class DataVerbs(ScopedView):
    """The uploaded data of the scope's project."""

    @log_as("create")
    def upload(
        self,
        *paths: PathText,
        name: str | None = None,
        progress: Callable[[StepProgress], None] | None = None,
    ) -> "Sequence[everhold.UploadedFile]":
        """Upload data files and return, for each, its source, its tables and what was detected and repaired.

        CSV, TSV, Excel (.xlsx), JSON, JSON lines, Parquet and SQLite files are read, also zipped or gzipped. If there
        is a file of the same `name` (by default the file name of the path), the upload becomes its new version; the
        same content changes nothing. The data belongs to the scope's project, or to a project made for the scope's
        user. Raise UnreadableFile if a file is damaged or takes too much memory or time; it is not stored then.
        """
        from everhold.ask.sources.pipeline import upload_file
        from everhold.views.data_deps import make_data_deps, require_extra

        _require_paths(paths, name)
        require_extra()
        deps, report = make_data_deps(self._parts), progress or ignore_progress
        files = [upload_file(deps, self.scope, path, name, report) for path in paths]
        for file in files:
            if not file.is_new:
                self._log_call("create", {"source": file.source.id, "known": True})
        return files

    @log_as("read")
    def sources(self, *, every_version: bool = False, limit: ListLength = 1000) -> Sequence[Source]:
        """Return the uploaded files, the latest first; with `every_version` also versions that were replaced."""
        from everhold.ask.sources.lookup import list_sources

        rows = list_sources(self._parts.records, self.scope, every_version=every_version)[:limit]
        self._log_call("read", {"sources": len(rows)})
        return rows

    @log_as("read")
    def tables(self, *, source: str | None = None, limit: ListLength = 10_000) -> Sequence[TableMetadata]:
        """Return the tables of uploaded files and connected databases, or of one `source` of either kind, by name."""
        from everhold.ask.connections.lookup import require_owner
        from everhold.ask.sources.lookup import list_tables

        records = self._parts.records
        owner = require_owner(records, self.scope, source) if source is not None else None
        rows = list_tables(records, self.scope, owner)[:limit]
        self._log_call("read", {"tables": len(rows)})
        return rows

    @log_as("read")
    def describe(self, table: str) -> "everhold.DescribedTable":
        """Return a table, by name or id, with its columns: types, units, ranges, frequent values and keys."""
        from everhold.ask.sources.lookup import list_fields, require_table
        from everhold.ask.sources.rows import DescribedTable

        row = require_table(self._parts.records, self.scope, table)
        fields = list_fields(self._parts.records, row.organization_id, [row.id])[row.id]
        self._log_call("read", {"table": row.id})
        return DescribedTable(row, tuple(fields))

    @log_as("update")
    def update_description(
        self, table: str, description: Body, *, field: str | None = None
    ) -> TableMetadata | FieldMetadata:
        """Describe a table, or the column `field` of it. `find_tables` searches descriptions.

        The description is kept when a new version of the file is uploaded.
        """
        from everhold.ask.sources.describing import update_description
        from everhold.views.data_deps import make_data_deps

        return update_description(make_data_deps(self._parts), self.scope, table, field, description)

    @log_as("search")
    def find_tables(
        self,
        question: Question,
        *,
        source: str | None = None,
        table: str | None = None,
        field: str | None = None,
        value: str | None = None,
        limit: HitCount = 10,
    ) -> "Sequence[everhold.FoundTable]":
        """Return the tables that a question is about, best first, with the columns and values that the question names.

        Names and descriptions of tables, columns and files are searched as recall searches memories. `source`, `table`,
        `field` and `value` limit the search: to a file or a connection, to a table, to tables with a column, and to
        tables with a column that has a value.
        """
        from everhold.ask.sources.finding import TableFilter, find_tables
        from everhold.ask.sources.lookup import narrow_to_project
        from everhold.views.data_deps import make_data_deps

        found_tables = find_tables(
            make_data_deps(self._parts),
            narrow_to_project(self.scope),
            question,
            limit,
            TableFilter(source, table, field, value),
            self._search_rows,
        )
        self._log_call("search", {"tables": len(found_tables), "length": len(question)})
        return found_tables

    @log_as("delete")
    def delete_source(self, source: str, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide an uploaded file, all its versions and their tables, until `restore_source`.

        With `hard` they are purged and their files are deleted; with `preview` the rows are only counted.
        """
        from everhold.ask.sources.deletion import count_rows, delete_sources, find_doomed
        from everhold.views.data_deps import make_data_deps

        deps = make_data_deps(self._parts)
        versions = find_doomed(deps, self.scope, source, hard=hard)
        rows = {} if versions[0].is_deleted else count_rows(deps, versions)
        if preview:
            self._log_call("read", {"source": versions[0].id, "preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        delete_sources(deps, self.scope, versions, hard=hard)
        if hard:
            self._parts.write_deps.drop_cached_texts()
        return Deleted(rows)

    @log_as("update")
    def restore_source(self, source: str) -> Source:
        """Restore a deleted file, its versions and their tables."""
        from everhold.ask.sources.deletion import restore_source
        from everhold.views.data_deps import make_data_deps

        return restore_source(make_data_deps(self._parts), self.scope, source)

    @log_as("search")
    def ask(
        self,
        question: Question,
        *,
        after: Question | EarlierQuestion | Sequence[Question | EarlierQuestion] = (),
        choice: ChoiceNumber | None = None,
        today: date | None = None,
        connection: str | None = None,
    ) -> "everhold.Answer":
        """Answer a question about the scope's tables with a sentence, the rows, the SQL and a chart.

        The answer's `status` says whether it is certain. With "clarify", ask again with `choice`, the number of one of
        its `choices`. With "cannot", nothing was run, and `not_understood` says why.

        `after` is the previous question, as text or as `earlier` of its answer, or several questions, oldest first. A
        fragment such as "only in 2025" then changes the previous question. In a scope with a session, the default is
        the session's last questions; the question and the answer are added to the session as messages, and the query as
        a run. Periods such as "last month" are counted from `today`, by default the present day. Raise NotFound if the
        scope has no tables. Only statements that the guard allows are run. A question is answered either from the
        uploaded files or from one connected database, which `connection` may name.
        """
        from everhold.ask.asking import ask_question
        from everhold.ask.recording import list_earlier_questions, list_offered_statements
        from everhold.views.candidates import make_candidate_sources, make_learned_source, make_model_source
        from everhold.views.data_deps import make_data_deps, require_extra

        require_extra()
        asked_at = clock.now()
        earlier_items = [after] if isinstance(after, str | EarlierQuestion) else after
        earlier_questions = [EarlierQuestion(item) if isinstance(item, str) else item for item in earlier_items]
        question_of_choice = question if choice is not None else None
        deps, records = make_data_deps(self._parts), self._parts.records
        model = make_model_source(self._parts, deps, self.scope)
        asked_question = ask_question(
            deps,
            self._parts.data_engine,
            self.scope,
            question,
            today or asked_at.astimezone(ZoneInfo(self._parts.settings.timezone)).date(),
            self._find_question_tables,
            earlier_questions or list_earlier_questions(records, self.scope, question_of_choice),
            choice,
            make_candidate_sources(self._parts, self.scope),
            make_learned_source(self._parts, self.scope).find_rejected,
            connection=connection,
            model=model,
            offered=list_offered_statements(records, self.scope, question) if model and choice is not None else (),
        )
        return replace(asked_question.answer, query=self._record_question(asked_question, asked_at))

    @log_as("search")
    def sql(self, statement: Question, *, connection: str | None = None) -> "everhold.QueryResult":
        """Return the rows of a SELECT on the scope's tables, written in the SQL of DuckDB or of a connected database.

        Raise StatementRefused for any other statement. It runs in a separate process, within limits of time, memory and
        rows, on the uploaded files or the database that has all of its tables. `connection` names a database if several
        have tables of these names.
        """
        from everhold.ask.asking import run_statement
        from everhold.views.data_deps import make_data_deps, require_extra

        require_extra()
        result = run_statement(make_data_deps(self._parts), self._parts.data_engine, self.scope, statement, connection)
        self._log_call("search", {"rows": result.row_count, "length": len(statement)})
        return result

    def _find_question_tables(self, question: str) -> Sequence[TableMetadata]:
        return [found_table.table for found_table in self.find_tables(question, limit=20)]

    def _record_question(self, asked_question: "AskedQuestion", asked_at: datetime) -> str:
        """Store the query and return its id; in a session also add messages for question and answer, and a run."""
        from everhold.ask.recording import make_query_run

        query = make_query_run(self.scope, asked_question, asked_at)
        request: dict[str, Any] = {"query": query.id, "rows": query.row_count or 0}
        if asked_question.model_use is not None:
            request["language_model"] = asked_question.model_use.to_document()
        line = self._make_line("search", request)
        self._parts.records.commit(
            [*self._parts.write_deps.scope_rows.make_missing_rows(self.scope, asked_at), Put(query), line]
        )
        if self.scope.session is None:
            return query.id
        answer = asked_question.answer
        view = everhold.View(self._parts, self.scope)
        message = view.say(
            answer.question if asked_question.choice is None else f"{answer.question} (choice {asked_question.choice})"
        )
        run = view.run(answer.question, message=message.id)
        if asked_question.result is None:
            run.fail(answer.sentence)
        else:
            run.propose("sql", {"sql": answer.sql}, reasoning=answer.restatement)
            run.complete({"rows": asked_question.result.row_count, "query": query.id}, summary=answer.sentence)
            run.finish(remember=False)
        references = [{"kind": "query", "id": query.id}, {"kind": "run", "id": run.id}]
        view.say(answer.full_text, role="assistant", references=references)
        return query.id

    def _search_rows(self, question: str, scope: Scope, kind: str, limit: int) -> Iterable[tuple[Entity, float]]:
        """Return the rows of one kind that fit a question best, each with its score, even if it is low."""
        request = Request(question, limit, minimum=0.0, among=(kind,))
        return [(hit.record, hit.score) for hit in recall(self._parts.recall_deps, scope, request)]


class AsyncDataVerbs(AsyncFacade):
    """The verbs of `DataVerbs`, awaited."""

    upload = Awaited(DataVerbs.upload)
    sources = Awaited(DataVerbs.sources)
    tables = Awaited(DataVerbs.tables)
    describe = Awaited(DataVerbs.describe)
    update_description = Awaited(DataVerbs.update_description)
    find_tables = Awaited(DataVerbs.find_tables)
    delete_source = Awaited(DataVerbs.delete_source)
    restore_source = Awaited(DataVerbs.restore_source)
    ask = Awaited(DataVerbs.ask)
    sql = Awaited(DataVerbs.sql)


def _require_paths(paths: Sequence[str], name: str | None) -> None:
    from everhold.errors import InvalidInput

    if not paths:
        raise InvalidInput("upload names no file", remedy="pass a path")
    if name is not None and len(paths) > 1:
        raise InvalidInput(f"one name for {len(paths)} files", value=name, remedy="upload them one by one")
