"""Columns that a question does not name: the age of "older than 30", the date of "before 1980"."""

from collections.abc import Iterable

from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.language.lexicon import ADJECTIVES, TURNED
from everhold.ask.language.stems import stem
from everhold.ask.schema import AskColumn, AskSchema, AskTable


def find_implied(draft: FrameDraft, adjective: str, tables: Iterable[str] = ()) -> tuple[AskColumn, bool] | None:
    """Return the column that an adjective speaks of, and whether more of the adjective is more of the column."""
    words, more = ADJECTIVES[adjective]
    places = list(dict.fromkeys([*tables, *draft.mentioned_tables()]))
    choices = [(words, more)]
    if adjective in TURNED:
        choices.append(TURNED[adjective])
    for options, is_more in choices:
        for name in places:
            column = _find_by_words(draft.schema.table(name), options)
            if column:
                return column, is_more
    return None


def _find_by_words(table: AskTable, options: Iterable[str]) -> AskColumn | None:
    for option in options:
        named = [column for column in table.columns if stem(option) in column.words]
        fitting = [column for column in named if column.is_numeric or column.is_time or option in ("birthday", "birth")]
        # "SurfaceArea" is an area; "Date_of_birth" is rather a birth than a date.
        ending = [column for column in fitting if column.words[-1] == stem(option)]
        if fitting:
            return (ending or fitting)[0]
    return None


def find_time(draft: FrameDraft, near: int) -> AskColumn | None:
    """Return the date or year that a period without a column is about: of the table named nearest before it."""
    named = sorted(draft.tables(), key=lambda pair: (pair[0] > near, abs(pair[0] - near)))
    names = [table.name for _, table in named] + draft.mentioned_tables()
    for name in dict.fromkeys(names):
        times = [column for column in draft.schema.table(name).columns if column.is_time]
        if times:
            return times[0]
    for name in find_near_tables(draft.schema, names):
        times = [column for column in draft.schema.table(name).columns if column.is_time]
        if times:
            return times[0]
    return None


def find_near_tables(schema: AskSchema, names: Iterable[str]) -> list[str]:
    """Return the tables one key away from others, in the order of those and of their keys."""
    return [
        key.to_table if key.table == name else key.table
        for name in dict.fromkeys(names)
        for key in schema.keys_at(name)
    ]
