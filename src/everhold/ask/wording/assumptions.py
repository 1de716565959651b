"""List the assumptions of a reading, and the meaning that it gives to each word of the question."""

from collections.abc import Iterator, Sequence

from everhold.ask.language.tokens import Token
from everhold.ask.lessons import LEARNED
from everhold.ask.linking.beam import Assignment
from everhold.ask.linking.mention import COLUMN, TABLE, VALUE, Mention
from everhold.ask.schema import AskSchema
from everhold.ask.wording.names import FrameNames, make_singular

_GUESSED_VALUES = ("similar", "derived", LEARNED)
_GUESSED_NAMES = ("synonym", "similar word", "part of the name", "name of the row", LEARNED)


def list_assumptions(schema: AskSchema, assignment: Assignment, tokens: Sequence[Token]) -> Iterator[str]:
    """Yield a sentence for each word whose meaning was guessed, because it is not exactly a name or a value."""
    for mention in assignment.mentions:
        text = quote_span(mention, tokens)
        is_guessed_value = mention.why in _GUESSED_VALUES and mention.column
        if mention.why == "unknown":
            yield f"{text!r} is a value that no column holds"
        elif is_guessed_value or (mention.why in _GUESSED_NAMES and not _is_short_name(schema, mention, text)):
            yield f"{text!r} means {_describe_meaning(schema, mention)}"


def _is_short_name(schema: AskSchema, mention: Mention, text: str) -> bool:
    """Return whether a text is the name of the mention's column without the words of the column's table and unit."""
    ref = mention.column
    return ref is not None and FrameNames(schema, ref.table, [ref.table]).name_alone(ref) == make_singular(text.lower())


def list_bindings(schema: AskSchema, assignment: Assignment, tokens: Sequence[Token]) -> dict[str, str]:
    """Return the meaning that the reading gives to each word or phrase, in their order.

    The meaning of a column that refers to a table is that table, so that "airline" has the same meaning in readings
    that show its code and readings that show its name.
    """
    mentions = [mention for mention in assignment.mentions if mention.table or mention.column]
    return {quote_span(mention, tokens): _name_binding(schema, mention) for mention in mentions}


def _name_binding(schema: AskSchema, mention: Mention) -> str:
    key = schema.foreign_key(mention.column) if mention.column and mention.kind == COLUMN else None
    return key.to_table if key is not None else _describe_meaning(schema, mention)


def _describe_meaning(schema: AskSchema, mention: Mention) -> str:
    """Return the meaning of a mention: the formula of a metric, else a table, a column or a value."""
    formula = schema.column(mention.column).formula if mention.column is not None else None
    if formula is None or mention.column is None:
        return name_meaning(mention)
    # A formula without columns, such as a count of rows, does not name its table.
    return formula.text if formula.columns else f"{formula.text} of {mention.column.table}"


def quote_span(mention: Mention, tokens: Sequence[Token]) -> str:
    """Return the words of a question that a mention consists of."""
    return " ".join(token.text for token in tokens[mention.start : mention.end])


def name_meaning(mention: Mention) -> str:
    """Return the table, the column or the value that a mention names."""
    column = f"{mention.column.table}.{mention.column.column}" if mention.column else ""
    if mention.kind == TABLE or not column:
        return str(mention.table)
    return f"the value {mention.value!r} of {column}" if mention.kind == VALUE else column
