"""Convert a statement back to a frame if that is possible, so that its answer has titles, units and a restatement."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from sqlglot import exp

from everhold.ask.earlier import EarlierQuestion
from everhold.ask.frame import Expression, Function, Literal, Ordering, Predicate, QueryFrame
from everhold.ask.guard import parse_query
from everhold.ask.learning.formulas import read_formula
from everhold.ask.learning.templates import resolve_column
from everhold.ask.reading import QuestionReader
from everhold.ask.schema import AskSchema, ColumnRef
from everhold.errors import StatementRefused

_CLAUSES = frozenset({"kind", "expressions", "from_", "joins", "where", "group", "order", "limit", "distinct"})
_FUNCTIONS: Mapping[type[exp.Expr], Function] = {
    exp.Count: Function.COUNT, exp.Sum: Function.SUM, exp.Avg: Function.AVERAGE, exp.Min: Function.MINIMUM,
    exp.Max: Function.MAXIMUM,
}  # fmt: skip
_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.Like: "like"
}  # fmt: skip


class _NoFrame(Exception):
    """Raised for a part of a statement that a frame cannot express."""


def read_frame(schema: AskSchema, sql: str, dialect: str) -> QueryFrame | None:
    """Return the frame of a statement; None if it has subqueries, expressions or clauses that a frame cannot
    express."""
    try:
        tree = parse_query(sql, dialect)  # it limits the size, because a caller may have written the statement
        return _FrameParser(schema, tree, dialect).read() if isinstance(tree, exp.Select) else None
    except (StatementRefused, ValueError, _NoFrame):
        return None


def find_previous(reader: QuestionReader, after: Sequence[EarlierQuestion], today: date) -> QueryFrame | None:
    """Return the frame that a fragment changes, by reading the earlier questions one after the other.

    If an earlier question was answered by another statement than those of the rules, such as a learned one, the frame
    is read from that statement, and the result may be None.
    """
    previous: QueryFrame | None = None
    for earlier in after:
        readings = reader.read(earlier.text, today, previous)
        matching = [reading for reading in readings.readings if reading.sql == earlier.sql]
        if not matching and earlier.sql is not None:
            previous = read_frame(reader.schema, earlier.sql, reader.dialect)
            continue
        reading = matching[0] if matching else readings.best
        previous = previous if reading is None else reading.frame
    return previous


class _FrameParser:
    """Reads the frame of one SELECT."""

    def __init__(self, schema: AskSchema, tree: exp.Select, dialect: str) -> None:
        self._schema, self._tree, self._dialect = schema, tree, dialect

    def read(self) -> QueryFrame:
        tree = self._tree
        if {name for name, value in tree.args.items() if value} - _CLAUSES or len(list(tree.find_all(exp.Select))) > 1:
            raise _NoFrame
        tables = self._read_tables()
        group = tree.args.get("group")
        order = tree.args.get("order")
        return QueryFrame(
            tables[0],
            tuple(self._read_selected()),
            bool(tree.args.get("distinct")),
            tuple(self._read_conditions()),
            tuple(Expression(self._read_column(item)) for item in (group.expressions if group else ())),
            (),
            tuple(self._read_ordering(item) for item in (order.expressions if order else ())),
            self._read_limit(),
            tuple(tables[1:]),
        )

    def _read_tables(self) -> list[str]:
        names = {table.name.lower(): table.name for table in self._schema.tables}
        tables = [names.get(table.name.lower(), "") for table in self._tree.find_all(exp.Table)]
        if not tables or not all(tables) or len(set(tables)) < len(tables):
            raise _NoFrame
        if any(join.side or join.args.get("using") for join in self._tree.args.get("joins") or ()):
            raise _NoFrame
        return tables

    def _read_selected(self) -> Iterator[Expression]:
        if [type(item) for item in self._tree.expressions] == [exp.Star]:
            return
        yield from (self._read_expression(item) for item in self._tree.expressions)

    def _read_expression(self, node: exp.Expr) -> Expression:
        node = node.unalias()
        metric = self._find_metric(node)
        if metric is not None:
            return metric
        function = _FUNCTIONS.get(type(node))
        if function is None:
            return Expression(self._read_column(node))
        inner = node.this
        if isinstance(inner, exp.Star):
            return Expression(function=function)
        is_distinct = isinstance(inner, exp.Distinct)
        column = self._read_column(inner.expressions[0] if is_distinct else inner)
        return Expression(column, function, distinct=is_distinct)

    def _find_metric(self, node: exp.Expr) -> Expression | None:
        """Return the metric of the schema that has the formula of an expression; None if there is none."""
        formula = read_formula(self._schema, node, self._dialect) if self._schema.metrics else None
        matching = [metric.ref for metric in self._schema.metrics if metric.formula == formula]
        return Expression(matching[0], formula.function) if matching and formula is not None else None

    def _read_column(self, node: exp.Expr) -> ColumnRef:
        ref = resolve_column(self._schema, node) if isinstance(node, exp.Column) else None
        if ref is None:
            raise _NoFrame
        return ref

    def _read_conditions(self) -> Iterator[Predicate]:
        where = self._tree.args.get("where")
        if where:
            nodes = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
            yield from map(self._read_condition, nodes)

    def _read_condition(self, node: exp.Expr) -> Predicate:
        if isinstance(node, exp.Between):
            bounds = (_read_literal(node.args["low"]), _read_literal(node.args["high"]))
            return Predicate(Expression(self._read_column(node.this)), "between", bounds)
        if isinstance(node, exp.In) and node.expressions:
            values = tuple(_read_literal(item) for item in node.expressions)
            return Predicate(Expression(self._read_column(node.this)), "in", values)
        operator = _COMPARISONS.get(type(node))
        if operator is None or not isinstance(node, exp.Binary):
            raise _NoFrame
        return Predicate(Expression(self._read_column(node.this)), operator, (_read_literal(node.expression),))

    def _read_ordering(self, node: exp.Expr) -> Ordering:
        return Ordering(self._read_expression(node.this), bool(node.args.get("desc")))

    def _read_limit(self) -> int | None:
        limit = self._tree.args.get("limit")
        return int(limit.expression.name) if limit is not None else None


def _read_literal(node: exp.Expr) -> Literal:
    if not isinstance(node, exp.Literal):
        raise _NoFrame
    return node.name if node.is_string else float(node.name) if "." in node.name else int(node.name)
