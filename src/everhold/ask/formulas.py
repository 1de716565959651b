"""Formulas of metrics: a SQL expression over columns of connected tables, and its place in a statement."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from everhold.ask.frame import Function
from everhold.ask.guard import parse_query
from everhold.ask.schema import ColumnRef
from everhold.errors import StatementRefused


@dataclass(frozen=True)
class Formula:
    """How a metric is computed. `sql` is an expression in which every column has its table.

    `function` makes one figure of the values that the expression has for each row: the turnover is the SUM of price *
    quantity. It is COMPUTED if the expression aggregates the rows itself, as a ratio of two sums does.
    """

    sql: str
    dialect: str
    columns: tuple[ColumnRef, ...]
    function: Function = Function.COMPUTED

    @property
    def text(self) -> str:
        """The whole formula, as a user reads it."""
        tree = parse_expression(self.sql, self.dialect)
        for identifier in tree.find_all(exp.Identifier):
            identifier.set("quoted", False)
        written = tree.sql(dialect=self.dialect, normalize_functions="lower")
        return written if self.function is Function.COMPUTED else f"{self.function.value}({written})"


def parse_expression(sql: str, dialect: str) -> exp.Expr:
    """Return the tree of an expression. StatementRefused if it is none, or too large."""
    tree: exp.Expr = parse_query(f"SELECT {sql}", dialect).expressions[0]
    return tree.pop()


def is_expression(formula: Formula) -> bool:
    """Say whether the text of a formula is one expression of its columns, without a query in it."""
    try:
        query = parse_query(f"SELECT {formula.sql}", formula.dialect)
    except StatementRefused:
        return False
    used = {(column.table.lower(), column.name.lower()) for column in query.find_all(exp.Column)}
    known = {(ref.table.lower(), ref.column.lower()) for ref in formula.columns}
    is_single = len(query.expressions) == 1 and len(list(query.find_all(exp.Query, exp.Table))) == 1
    return isinstance(query, exp.Select) and is_single and used <= known


def write_formula(formula: Formula, write_column: Callable[[ColumnRef], exp.Expr]) -> exp.Expr:
    """Return the expression of a formula with the columns that `write_column` returns."""
    tree = parse_expression(formula.sql, formula.dialect)
    refs = {(ref.table.lower(), ref.column.lower()): ref for ref in formula.columns}

    def write(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return write_column(refs[node.table.lower(), node.name.lower()])

    return tree.transform(write, copy=False)
