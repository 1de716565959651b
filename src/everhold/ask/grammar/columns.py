"""Columns that a question does not name: the age of "older than 30", the date of "before 1980"."""

from collections.abc import Iterable

from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.language.lexicon import ADJECTIVES, TURNED
from everhold.ask.language.stems import stem
from everhold.ask.linking.mention import COLUMN
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind

_BIRTH = stem("birth")


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
    """Return the date or year that a period without a column is about.

    It is the one that a word of the question names, such as "hired". Else it is of the table whose measure is asked
    for, or of the table named nearest before the period.
    """
    stated = find_stated_time(draft)
    if stated:
        return stated
    named = sorted(draft.tables(), key=lambda pair: (pair[0] > near, abs(pair[0] - near)))
    names = [*_list_measured(draft), *(table.name for _, table in named), *draft.mentioned_tables()]
    for name in dict.fromkeys([*names, *find_near_tables(draft.schema, names)]):
        times = [column for column in draft.schema.table(name).columns if column.is_time]
        if times:
            # Few periods are about births, which come first in many tables.
            return next((column for column in times if not is_birth(column)), times[0])
    return None


def find_stated_time(draft: FrameDraft) -> AskColumn | None:
    """Return the date that a single word of the question states, as "hired" states the hire date."""
    for piece in draft.pieces:
        mention = piece.mention
        if mention and mention.kind == COLUMN and mention.column and mention.end - mention.start == 1:
            column = draft.schema.column(mention.column)
            if column.kind is ColumnKind.DATE and mention.why == "part of the name":
                return column
    return None


def is_birth(column: AskColumn) -> bool:
    """Say whether a date is one of birth, which few questions group by."""
    return _BIRTH in column.words


def _list_measured(draft: FrameDraft) -> list[str]:
    mentions = [piece.mention for piece in draft.pieces if piece.mention]
    columns = [draft.schema.column(mention.column) for mention in mentions if mention.kind == COLUMN and mention.column]
    return [column.table for column in columns if column.kind is ColumnKind.MEASURE]


def find_near_tables(schema: AskSchema, names: Iterable[str]) -> list[str]:
    """Return the tables one key away from others, in the order of those and of their keys."""
    return [
        key.to_table if key.table == name else key.table
        for name in dict.fromkeys(names)
        for key in schema.keys_at(name)
    ]
