"""Find columns that a question does not name: the age in "older than 30", the date in "before 1980"."""

from collections.abc import Iterable

from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.language.lexicon import ADJECTIVES, FALLBACKS
from everhold.ask.language.stems import stem
from everhold.ask.linking.mention import COLUMN
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind

_BIRTH = stem("birth")


def find_implied(draft: FrameDraft, adjective: str, tables: Iterable[str] = ()) -> tuple[AskColumn, bool] | None:
    """Return the column that an adjective refers to, and whether the adjective means a higher value of it.

    None if no table has such a column.
    """
    table_names = list(dict.fromkeys([*tables, *draft.mentioned_tables()]))
    meanings = [ADJECTIVES[adjective]]
    if adjective in FALLBACKS:
        meanings.append(FALLBACKS[adjective])
    for words, means_more in meanings:
        for name in table_names:
            column = _find_by_words(draft.schema.table(name), words)
            if column:
                return column, means_more
    return None


def _find_by_words(table: AskTable, words: Iterable[str]) -> AskColumn | None:
    for word in words:
        named = [column for column in table.columns if stem(word) in column.words]
        fitting = [column for column in named if column.is_numeric or column.is_time or word in ("birthday", "birth")]
        # Columns that end with the word are preferred: "SurfaceArea" is an area, but "Date_of_birth" is above all a
        # birth.
        ending = [column for column in fitting if column.words[-1] == stem(word)]
        if fitting:
            return (ending or fitting)[0]
    return None


def find_time(draft: FrameDraft, near: int) -> AskColumn | None:
    """Return the date or year that a period without a column is about.

    A column that a word of the question states, such as "hired", comes first. Otherwise the column is taken from the
    table whose measure is asked for, or from the table that is named nearest before the period.
    """
    stated = find_stated_time(draft)
    if stated:
        return stated
    named = sorted(draft.tables(), key=lambda table: (table[0] > near, abs(table[0] - near)))  # by position
    names = [*_list_measure_tables(draft), *(table.name for _, table in named), *draft.mentioned_tables()]
    for name in dict.fromkeys([*names, *find_near_tables(draft.schema, names)]):
        times = [column for column in draft.schema.table(name).columns if column.is_time]
        if times:
            # In many tables a date of birth comes first, but few periods are about births.
            return next((column for column in times if not is_birth(column)), times[0])
    return None


def find_stated_time(draft: FrameDraft) -> AskColumn | None:
    """Return the date column that a single word of the question refers to, such as "hired" to the hire date."""
    for piece in draft.pieces:
        mention = piece.mention
        if mention and mention.kind == COLUMN and mention.column and mention.end - mention.start == 1:
            column = draft.schema.column(mention.column)
            if column.kind is ColumnKind.DATE and mention.why == "part of the name":
                return column
    return None


def is_birth(column: AskColumn) -> bool:
    """Return whether a column is a date of birth. Few questions group by it."""
    return _BIRTH in column.words


def _list_measure_tables(draft: FrameDraft) -> list[str]:
    mentions = [piece.mention for piece in draft.pieces if piece.mention]
    columns = [draft.schema.column(mention.column) for mention in mentions if mention.kind == COLUMN and mention.column]
    return [column.table for column in columns if column.kind is ColumnKind.MEASURE]


def find_near_tables(schema: AskSchema, names: Iterable[str]) -> list[str]:
    """Return the tables that a key connects to one of these tables, in the order of these tables and their keys."""
    return [
        key.to_table if key.table == name else key.table
        for name in dict.fromkeys(names)
        for key in schema.keys_at(name)
    ]
