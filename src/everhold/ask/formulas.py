"""Formulas of metrics: parse them, check them, and write them into a statement."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from everhold.ask.frame import Function
from everhold.ask.guard import parse_query
from everhold.ask.schema import ColumnRef
from everhold.errors import StatementRefused


@dataclass(frozen=True)
class Formula:
    """The formula of a metric. `sql` is an expression in which every column is written with its table.

    `function` aggregates the values of the expression over the rows: turnover is the SUM of price * quantity. It is
    COMPUTED if the expression itself aggregates the rows, as a ratio of two sums does.
    """

    sql: str
    dialect: str
    columns: tuple[ColumnRef, ...]
    function: Function = Function.COMPUTED

    @property
    def text(self) -> str:
        """The whole formula with its function, as it is shown to users."""
        tree = parse_expression(self.sql, self.dialect)
        for identifier in tree.find_all(exp.Identifier):
            identifier.set("quoted", False)
        written = tree.sql(dialect=self.dialect, normalize_functions="lower")
        return written if self.function is Function.COMPUTED else f"{self.function.value}({written})"


def parse_expression(sql: str, dialect: str) -> exp.Expr:
    """Return the syntax tree of an expression. Raise StatementRefused if it cannot be parsed or is too large."""
    tree: exp.Expr = parse_query(f"SELECT {sql}", dialect).expressions[0]
    return tree.pop()


def is_expression(formula: Formula) -> bool:
    """Return whether the text of a formula is a single expression that uses only its columns and has no query in it."""
    try:
        query = parse_query(f"SELECT {formula.sql}", formula.dialect)
    except StatementRefused:
        return False
    used_columns = {(column.table.lower(), column.name.lower()) for column in query.find_all(exp.Column)}
    formula_columns = {(ref.table.lower(), ref.column.lower()) for ref in formula.columns}
    is_single = len(query.expressions) == 1 and len(list(query.find_all(exp.Query, exp.Table))) == 1
    return isinstance(query, exp.Select) and is_single and used_columns <= formula_columns


def write_formula(formula: Formula, write_column: Callable[[ColumnRef], exp.Expr]) -> exp.Expr:
    """Return the syntax tree of a formula, with each column replaced by what `write_column` returns for it."""
    tree = parse_expression(formula.sql, formula.dialect)
    refs = {(ref.table.lower(), ref.column.lower()): ref for ref in formula.columns}

    def write(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return write_column(refs[node.table.lower(), node.name.lower()])

    return tree.transform(write, copy=False)
