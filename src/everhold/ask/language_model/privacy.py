"""Keep values of the data out of prompts, by hiding them in statements, questions, meanings and error messages."""

import re
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from everhold.ask.guard import parse_query
from everhold.ask.schema import AskSchema
from everhold.errors import StatementRefused

HIDDEN_VALUE: Final = "…"
_VALUE_MEANING: Final = "the value "
# Literals that belong to computations, not to the data.
_PLAIN_LITERALS: Final = frozenset((
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "0", "1", "100", "0.0", "1.0", "100.0",
))  # fmt: skip


def hide_values(sql: str, dialect: str, typed: str) -> str | None:
    """Return a statement in which every literal that is not in `typed` is hidden; None if it cannot be read.

    `typed` is the text that the user wrote. Numbers in LIMIT and names of periods are not hidden.
    """
    try:
        tree = parse_query(sql, dialect)
    except StatementRefused:
        return None
    for literal in list(tree.find_all(exp.Literal)):
        if literal.find_ancestor(exp.Limit) is None and not _is_shown(str(literal.this), typed):
            literal.replace(exp.Literal.string(HIDDEN_VALUE))
    return tree.sql(dialect=dialect, comments=False)


def hide_question_values(question: str, sql: str, dialect: str, typed: str) -> str:
    """Return an earlier question in which literals of its statement are hidden, unless they are in `typed`."""
    try:
        literals = {str(literal.this) for literal in parse_query(sql, dialect).find_all(exp.Literal)}
    except StatementRefused:
        return HIDDEN_VALUE
    for text in sorted(literals, key=len, reverse=True):
        if text and not _is_shown(text, typed):
            question = re.sub(re.escape(text), HIDDEN_VALUE, question, flags=re.IGNORECASE)
    return question


def _is_shown(literal: str, typed: str) -> bool:
    return literal.casefold() in _PLAIN_LITERALS or literal.casefold() in typed.casefold()


def list_meanings(schema: AskSchema, bindings: Mapping[str, str], *, sends_values: bool) -> dict[str, str]:
    """Return the meanings of words to send. If values may not be sent, a value is replaced by its column."""
    if sends_values:
        return dict(bindings)
    meanings = {}
    for words, meaning in bindings.items():
        if not meaning.startswith(_VALUE_MEANING):
            meanings[words] = meaning
        elif column := _find_column(schema, meaning):
            meanings[words] = f"a value of {column}"
    return meanings


def _find_column(schema: AskSchema, meaning: str) -> str:
    """Return the column in a meaning such as "the value 'x' of table.column"; empty if there is none.

    A value may contain " of " too, so the end is compared with all columns.
    """
    names = (f"{column.table}.{column.name}" for column in schema.columns())
    matching = (name for name in names if meaning.endswith(f" of {name}"))
    return max(matching, key=len, default="")


def hide_error_values(message: str, statement: str, schema: AskSchema) -> str:
    """Return an error message of a database with all words hidden that may be values.

    Databases quote values, as in "could not convert the string 'x' of a row". So only words of the statement, names of
    the schema and plain words are kept.
    """
    names = {column.name for column in schema.columns()} | {table.name for table in schema.tables}
    shown_words = {word.casefold() for name in names for word in (name, *_split(name))} | _PLAIN_WORDS
    shown_words |= {word.casefold() for word in _split(statement)}
    return " ".join(word if word.casefold() in shown_words else HIDDEN_VALUE for word in _split(message))


def list_unknown_words(message: str, statement: str) -> list[str]:
    """Return the words of a database's message that are also in the statement and are not plain; most are names."""
    statement_words = {word.casefold() for word in _split(statement)} - _PLAIN_WORDS
    return list(dict.fromkeys(word for word in _split(message) if word.casefold() in statement_words))


def _split(text: str) -> list[str]:
    cleaned = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text)
    return cleaned.split()


# Words that databases use in error messages about statements. Any other word may be a value.
_PLAIN_WORD_LIST: Final = """
a aggregate aggregated aggregates alias ambiguous an and any appear argument arguments as at be before between binder
but by cannot cast cause check clause clauses column columns comparison condition conversion convert converting could
data date did does doesn doing double error exist exists explicit expected expression field find for format found from
function functions given group grouped having implicit in incompatible inside instead integer into invalid is it join
known limit list match matches mean mismatch missing must name named near need needs no none not number numeric of on
operator or order out parser parsing query range reference referenced relation required result results returned row
rows select should similar statement string subquery such supported syntax table tables text than that the this time
timestamp to type types unknown unrecognized use used using value values varchar was where which window with within
without you your
"""
_PLAIN_WORDS: Final = frozenset(_PLAIN_WORD_LIST.split())
