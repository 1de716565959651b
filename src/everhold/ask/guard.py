"""Allows a statement only if every part of it is on a list: one SELECT, known tables, known functions. Fails closed."""

from collections.abc import Collection
from typing import NoReturn

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from everhold.errors import StatementRefused

_LONGEST_STATEMENT = 100_000  # characters
_DEEPEST = 200  # nested expressions; deeper trees would end the parser by recursion

# Every node that a statement may contain. What is not here is refused, however harmless it may be.
_NODES: tuple[type[exp.Expr], ...] = (
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Distinct, exp.Subquery, exp.Union, exp.Intersect, exp.Except, exp.With, exp.CTE, exp.Table, exp.TableAlias,
    exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Tuple,
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is, exp.Like,
    exp.ILike, exp.Escape, exp.Exists, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.DPipe, exp.Case,
    exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var, exp.Window, exp.WindowSpec,
    exp.Anonymous,
)  # fmt: skip
_FUNCTIONS: tuple[type[exp.Expr], ...] = (
    exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Lag, exp.Lead, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Abs,
    exp.Round, exp.Lower, exp.Upper, exp.Length, exp.Trim, exp.Coalesce, exp.Nullif, exp.Substring, exp.Replace,
    exp.TimestampTrunc, exp.DateTrunc, exp.Extract, exp.TimeToStr, exp.TsOrDsToTimestamp, exp.Floor, exp.Ceil,
    exp.Stddev, exp.Variance, exp.Median, exp.Concat,
)  # fmt: skip
# Functions that sqlglot has no class for.
_NAMED_FUNCTIONS = frozenset({"strftime", "date", "julianday", "total", "iif"})


def check_statement(sql: str, dialect: str, tables: Collection[str]) -> exp.Query:
    """Return a statement as an expression tree if it only selects from `tables`; else raise StatementRefused.

    Run the SQL that the tree renders, not the text that came in: what the parser did not see is then not run.
    """
    if len(sql) > _LONGEST_STATEMENT:
        _refuse(f"the statement has {len(sql):,} characters", f"at most {_LONGEST_STATEMENT:,} are allowed")
    try:
        statements = [statement for statement in parse(sql, read=dialect) if statement is not None]
    except (SqlglotError, RecursionError, ValueError) as error:
        raise StatementRefused("the statement cannot be parsed", value=sql, remedy="correct its syntax") from error
    if len(statements) != 1:
        _refuse(f"{len(statements)} statements were passed", "pass exactly one SELECT")
    statement = statements[0]
    if not isinstance(statement, exp.Select | exp.SetOperation):
        _refuse(f"{statement.key.upper()} is not allowed", "pass a SELECT")
    _check_nodes(statement)
    _check_tables(statement, tables)
    return statement


def _refuse(fact: str, remedy: str) -> NoReturn:
    raise StatementRefused(fact, remedy=remedy)


def _check_nodes(statement: exp.Expr) -> None:
    for node in statement.walk():
        if type(node) not in _NODES and type(node) not in _FUNCTIONS:
            _refuse(f"{type(node).__name__} is not allowed in a statement", "leave it out")
        if isinstance(node, exp.Select) and not node.expressions:
            _refuse("the statement selects nothing", "name the columns after SELECT")
        if isinstance(node, exp.Anonymous) and str(node.this).lower() not in _NAMED_FUNCTIONS:
            _refuse(f"the function {str(node.this)[:60]!r} is not allowed", "use another function")
        if isinstance(node, exp.With) and node.args.get("recursive"):
            _refuse("a recursive query is not allowed", "write it without RECURSIVE")
        if node.depth > _DEEPEST:
            _refuse("the statement is nested too deeply", f"nest at most {_DEEPEST} levels")


def _check_tables(statement: exp.Expr, tables: Collection[str]) -> None:
    allowed = {name.lower() for name in tables}
    local = {expression.alias_or_name.lower() for expression in statement.find_all(exp.CTE)}
    for table in statement.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            _refuse("a table function is not allowed", "select from a table")
        if table.args.get("db") or table.args.get("catalog"):
            _refuse(f"the table {table.sql()[:60]!r} names a schema", "name the table alone")
        if table.name.lower() not in allowed | local:
            _refuse(f"no table {table.name[:60]!r}", f"use one of: {', '.join(sorted(tables))}")
