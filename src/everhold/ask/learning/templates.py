"""Make templates from confirmed statements. Literals that stand for slots of the question can be replaced."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from everhold.ask.frame import Literal
from everhold.ask.language.tokens import split_words
from everhold.ask.learning.slots import QuestionSlot, SlotForm
from everhold.ask.schema import AskSchema, ColumnRef
from everhold.errors import InvalidInput

# A private-use character marks the positions to fill. The guard checks the filled statement.
_MARK = "\ue000"
_MARKER = re.compile(f"{_MARK}([0-9]+){_MARK}")
_MARKED = re.compile(f"[:@$?]*({_MARK}[0-9]+{_MARK})")
_TEXT_FORMS = (SlotForm.VALUE, SlotForm.LOWER, SlotForm.UPPER)
_PLAIN_NUMBERS = ("0", "1", "1.0", "100", "100.0")  # numbers for shares and limits, which questions do not name
_DATE_FORMS = (SlotForm.START, SlotForm.END, SlotForm.LAST, SlotForm.YEAR)


@dataclass(frozen=True)
class SlotUse:
    """A literal of a statement that a slot of the question fills.

    `place` is the index of the literal among those of the statement. `prefix` and `suffix` are the wildcards around the
    value. `column` is the column that the literal is compared with, if any.
    """

    place: int
    slot: int
    form: SlotForm
    column: ColumnRef | None = None
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True)
class SqlTemplate:
    """A statement, the literals in it that slots fill, and a key that is equal for statements of the same shape.

    `constants` are literals that stand for no slot of the question, such as the limit that "major" means.
    """

    sql: str
    dialect: str
    uses: tuple[SlotUse, ...]
    key: str
    constants: tuple[str, ...] = ()

    def fill(self, slots: Sequence[QuestionSlot]) -> str | None:
        """Return the statement filled with other slots; None if one of them has no value for its literal."""
        parts = _MARKER.split(self.key)
        for index in range(1, len(parts), 2):
            use = self.uses[int(parts[index])]
            value = slots[use.slot].write(use.form, use.column)
            if value is None:
                return None
            parts[index] = _make_literal(value, use).sql(dialect=self.dialect)
        return "".join(parts)


def make_template(sql: str, dialect: str, schema: AskSchema, slots: Sequence[QuestionSlot]) -> SqlTemplate:
    """Return the template of a statement that answers a question with these slots."""
    tree = sqlglot.parse_one(sql, read=dialect)
    literals = list(list_literals(tree))
    if _MARK in sql:
        raise InvalidInput("a statement to learn has a character that is reserved", remedy="remove U+E000 from it")
    uses = [use for index, node in enumerate(literals) if (use := _find_use(schema, node, index, slots)) is not None]
    used = {use.place for use in uses}
    constants = [
        node.name
        for index, node in enumerate(literals)
        if index not in used and (node.is_string or node.name not in _PLAIN_NUMBERS)
    ]
    return SqlTemplate(sql, dialect, tuple(uses), _make_key(sql, dialect, uses), tuple(dict.fromkeys(constants)))


def list_literals(tree: exp.Expr) -> Iterator[exp.Literal]:
    """Yield the literals of a statement, always in the same order."""
    yield from tree.find_all(exp.Literal)


def _find_use(schema: AskSchema, node: exp.Literal, position: int, slots: Sequence[QuestionSlot]) -> SlotUse | None:
    column = find_compared_column(schema, node)
    for number, slot in enumerate(slots):
        use = _match_literal(node, SlotUse(position, number, SlotForm.VALUE, column), slot)
        if use is not None:
            return use
    return None


def _match_literal(node: exp.Literal, use: SlotUse, slot: QuestionSlot) -> SlotUse | None:
    """Return how a literal of the SQL is written from a slot of the question; None if it does not come from it."""
    if not node.is_string:
        is_same = slot.number is not None and float(node.name) == float(slot.number)
        is_year = not is_same and slot.write(SlotForm.YEAR) == node.name
        form = SlotForm.NUMBER if is_same else SlotForm.YEAR
        return SlotUse(use.place, use.slot, form, use.column) if is_same or is_year else None
    for form in _DATE_FORMS:
        if slot.write(form) == node.name:
            return SlotUse(use.place, use.slot, form, use.column)
    core = node.name.strip("%")
    if slot.number is not None and core.replace(".", "", 1).isdigit() and float(core) == float(slot.number):
        prefix, suffix = _split_wildcards(node.name)
        return SlotUse(use.place, use.slot, SlotForm.NUMBER, use.column, prefix, suffix)
    if slot.number is not None or slot.period is not None or not core:
        return None
    prefix, suffix = _split_wildcards(node.name)
    is_pattern = bool(prefix or suffix)
    column = None if is_pattern else use.column
    for form in _TEXT_FORMS:
        if slot.write(form, column) == core:
            return SlotUse(use.place, use.slot, form, column, prefix, suffix)
    is_same = split_words(core) == split_words(slot.text) and (is_pattern or column in (None, *slot.stored))
    return SlotUse(use.place, use.slot, SlotForm.VALUE, column, prefix, suffix) if is_same else None


def _split_wildcards(text: str) -> tuple[str, str]:
    prefix = text[: len(text) - len(text.lstrip("%"))]
    return prefix, text[len(text.rstrip("%")) :]


def _make_literal(value: Literal, use: SlotUse) -> exp.Expr:
    if use.form is SlotForm.NUMBER and not use.prefix and not use.suffix and not isinstance(value, str):
        return exp.Literal.number(value)
    return exp.Literal.string(f"{use.prefix}{value}{use.suffix}")


def find_compared_column(schema: AskSchema, node: exp.Expr) -> ColumnRef | None:
    """Return the column that a literal is compared with; None if there is no such column."""
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Tuple | exp.Lower | exp.Upper | exp.Cast):
        parent = parent.parent
    if not isinstance(parent, exp.Binary | exp.In | exp.Between):
        return None
    columns = [side for side in parent.iter_expressions() if side is not node and isinstance(side, exp.Column)]
    inner = [column for side in parent.iter_expressions() if side is not node for column in side.find_all(exp.Column)]
    compared = columns or inner
    return resolve_column(schema, compared[0]) if len(compared) == 1 or columns else None


def resolve_column(schema: AskSchema, column: exp.Column) -> ColumnRef | None:
    """Return the column of the schema that a column of a statement refers to; None if there is none."""
    root = column.root()
    if column.table:
        sources = [table for table in root.find_all(exp.Table) if table.alias_or_name.lower() == column.table.lower()]
    else:
        sources = list((column.find_ancestor(exp.Select) or root).find_all(exp.Table))
    names = {table.name.lower() for table in sources}
    known_columns = (known for table in schema.tables if table.name.lower() in names for known in table.columns)
    return next((known.ref for known in known_columns if known.name.lower() == column.name.lower()), None)


def _make_key(sql: str, dialect: str, uses: Sequence[SlotUse]) -> str:
    """Return the statement with a marker in place of each literal that a slot fills. It has the number of the use."""
    tree = sqlglot.parse_one(sql, read=dialect)
    literals = list(list_literals(tree))
    for number, use in enumerate(uses):
        literals[use.place].replace(exp.Placeholder(this=f"{_MARK}{number}{_MARK}"))
    return _MARKED.sub(r"\1", tree.sql(dialect=dialect, comments=False))
