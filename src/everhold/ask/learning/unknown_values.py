"""Write notes on texts in a corrected statement that no row has, such as misspelled values."""

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from everhold.ask.language.tokens import split_words
from everhold.ask.learning.templates import find_compared_column, list_literals
from everhold.ask.schema import AskSchema, ColumnKind
from everhold.ask.values import ValueIndex

_KINDS_WITHOUT_TEXTS = (ColumnKind.DATE, ColumnKind.FLAG)


def note_unknown_values(schema: AskSchema, values: ValueIndex, sql: str, dialect: str) -> Iterator[str]:
    """Yield a note for each text that is compared with a column whose values are all known, and is none of them."""
    for literal in list_literals(sqlglot.parse_one(sql, read=dialect)):
        ref = find_compared_column(schema, literal) if literal.is_string and _is_compared(literal) else None
        if ref is None:
            continue
        column = schema.column(ref)
        if not column.is_indexed or column.is_numeric or column.kind in _KINDS_WITHOUT_TEXTS:
            continue
        if not values.may_hold(ref, literal.name, ignores_case=dialect == "mysql"):
            words = split_words(literal.name)
            similar = [match.value for match in (*values.find_exact(words), *values.find_similar(words))]
            hint = next((f"; did you mean {value.raw!r}?" for value in similar if value.ref == ref), "")
            yield f"no row has {literal.name!r} as {ref.table}.{ref.column}{hint}"


def _is_compared(literal: exp.Literal) -> bool:
    """Return whether a literal is compared with a column directly, without a function around one of them."""
    parent = literal.parent
    if not isinstance(parent, exp.EQ | exp.NEQ | exp.In):
        return False
    return any(isinstance(side, exp.Column) for side in parent.iter_expressions())
