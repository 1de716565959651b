"""A source of candidate readings that uses what a scope has learned."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from everhold import clock
from everhold.ask.asking import run_checked
from everhold.ask.candidates import ScopedReadings
from everhold.ask.language.tokens import fold_text
from everhold.ask.learning.answering import find_rejected, propose_readings, read_fragment
from everhold.ask.learning.gate import RunStatement
from everhold.ask.learning.loading import LoadedMemory, MemoryCache
from everhold.ask.learning.patterns import QuestionContext
from everhold.ask.learning.quarantine import explain_disuse, list_needed_tables, revalidate
from everhold.ask.reading import QuestionReading
from everhold.ask.results import Rows
from everhold.ask.sources.deps import DataDeps
from everhold.errors import QueryError, StaleVersion, StatementRefused
from everhold.model import Scope
from everhold.ports.data_engine import DataEngine

FindMeanings = Callable[[str], Mapping[str, float]]
"""Returns the ids of query patterns, each with its similarity to a question by embedding."""


@dataclass(frozen=True)
class LearnedSource:
    """Proposes readings of a scope's questions from what the scope has learned."""

    deps: DataDeps
    engine: DataEngine
    cache: MemoryCache
    scope: Scope
    find_meanings: FindMeanings

    def propose(self, question: str, scoped: ScopedReadings) -> Sequence[QuestionReading]:
        """Return readings by patterns and lessons.

        Rows that were learned on changed tables are checked again before.
        """
        loaded = self.load(scoped)
        memory = loaded.memory
        if not memory.patterns.patterns and not memory.lessons:
            return []
        meanings = self.find_meanings(question) if memory.patterns.patterns else {}
        context = make_context(scoped)
        if scoped.after and scoped.previous is None:
            fragment = read_fragment(context, memory.lessons, question, scoped.after)
            if fragment:
                return fragment
        return propose_readings(context, memory, question, scoped.readings, meanings=meanings, previous=scoped.previous)

    def explain_silence(self, question: str, scoped: ScopedReadings) -> Sequence[str]:
        """Return why what was confirmed for this very question is not used, if its tables have changed since."""
        text, schema = fold_text(question), scoped.reader.schema
        table_names = {table.name.lower() for table in schema.tables}
        reasons = [
            explain_disuse([schema], row)
            for row in self.load(scoped).patterns.values()
            if row.wins > row.losses and fold_text(row.question) == text
            if table_names.issuperset(list_needed_tables([row]))
        ]
        return [
            f"the answer that was confirmed is not used: {reason}" for reason in dict.fromkeys(filter(None, reasons))
        ]

    def find_rejected(self, question: str, scoped: ScopedReadings) -> Mapping[str, bool]:
        """Return the statements that users of the scope rejected for a question, or for one with other values."""
        return find_rejected(make_context(scoped), self.load(scoped).memory, question)

    def load(self, scoped: ScopedReadings) -> LoadedMemory:
        """Return what the scope has learned. Rows that were learned on changed tables are checked again before."""

        def revalidate_rows(loaded: LoadedMemory) -> bool:
            run = make_runner(self.deps, self.engine, scoped)
            rows = list(loaded.patterns.values()), list(loaded.lessons.values())
            patches = revalidate(scoped.reader.schema, scoped.reader.dialect, run, *rows, clock.now())
            if patches:
                with suppress(StaleVersion):  # another caller checked them at the same time
                    self.deps.records.commit(patches)
            return bool(patches)

        return self.cache.load(self.deps.records, self.scope, make_context(scoped), revalidate_rows)


def make_context(scoped: ScopedReadings) -> QuestionContext:
    """Return the context with which a scope's questions are masked."""
    return QuestionContext(scoped.reader, scoped.today)


def make_runner(deps: DataDeps, engine: DataEngine, scoped: ScopedReadings) -> RunStatement:
    """Return a function that checks a statement and runs it on the tables of a scope."""

    def run(sql: str) -> Rows | None:
        try:
            return run_checked(deps, engine, scoped, sql).rows
        except (StatementRefused, QueryError):
            return None

    return run
