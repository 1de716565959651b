"""Find the formulas of the aggregates in a confirmed statement, from which metrics are learned."""

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp

from everhold.ask.formulas import Formula, parse_expression
from everhold.ask.frame import Function
from everhold.ask.joins import has_several_rows
from everhold.ask.learning.templates import SqlTemplate, list_literals, resolve_column
from everhold.ask.schema import AskSchema

_FUNCTIONS: Mapping[type[exp.Expr], Function] = {
    exp.Sum: Function.SUM, exp.Avg: Function.AVERAGE, exp.Min: Function.MINIMUM, exp.Max: Function.MAXIMUM
}  # fmt: skip
_MAX_LENGTH = 1_000  # characters


def find_formulas(schema: AskSchema, template: SqlTemplate) -> Iterator[tuple[str, Formula]]:
    """Yield the formulas of the aggregates that a statement selects, each with the table whose rows it aggregates.

    An aggregate with a value of the question is left out, because the next question has another value. A condition that
    the question does not name may belong to the metric, as turnover may mean that of paid orders. So each formula is
    also yielded with such conditions.
    """
    tree = sqlglot.parse_one(template.sql, read=template.dialect)
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Select))) > 1:
        return
    table = _find_counted_table(schema, tree)
    if table is None:
        return
    positions = {id(node): index for index, node in enumerate(list_literals(tree))}
    filled = {use.place for use in template.uses}

    def is_constant(node: exp.Expr) -> bool:
        return all(positions[id(literal)] not in filled for literal in node.find_all(exp.Literal))

    conditions = [node for node in _list_conditions(tree) if node.find(exp.Literal) and is_constant(node)]
    for item in tree.expressions:
        node = item.unalias()
        if not is_constant(node):
            continue
        unlimited = read_formula(schema, node, template.dialect)
        figure = _limit_figure(node, conditions)
        limited = None if figure is None else read_formula(schema, figure, template.dialect)
        yield from ((table, formula) for formula in (limited, unlimited) if formula is not None)


def _list_conditions(tree: exp.Select) -> list[exp.Expr]:
    where = tree.args.get("where")
    if where is None:
        return []
    return list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]


def _limit_figure(node: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """Replace an aggregate in its statement by the aggregate of the rows that meet the conditions, and return it.

    None if there are no conditions or the aggregate cannot be limited.
    """
    if not conditions or type(node) not in _FUNCTIONS or isinstance(node.this, exp.Distinct):
        return None
    condition = exp.and_(*conditions)
    limited = type(node)(this=exp.Case().when(condition, node.this.copy()))
    node.replace(limited)
    return limited


def is_plain(formula: Formula) -> bool:
    """Return whether a formula is only a function of one column or a count, so that an alias may suffice."""
    tree = parse_expression(formula.sql, formula.dialect)
    return isinstance(tree, exp.Column) or (isinstance(tree, exp.Count) and tree.find(exp.Distinct) is None)


def _find_counted_table(schema: AskSchema, tree: exp.Select) -> str | None:
    """Return the table of a statement whose rows the joins do not repeat, such as order lines, not orders."""
    names = {table.name.lower(): table.name for table in schema.tables}
    used = [names.get(table.name.lower(), "") for table in tree.find_all(exp.Table)]
    if not all(used):
        return None
    counted = [
        table for table in used if not any(has_several_rows(schema, table, other) for other in used if other != table)
    ]
    return counted[0] if counted else None


def read_formula(schema: AskSchema, node: exp.Expr, dialect: str) -> Formula | None:
    """Return a selected expression as a formula in which columns have their tables; None if it is not an aggregate."""
    aggregates = list(node.find_all(exp.AggFunc))
    function = _FUNCTIONS.get(type(node), Function.COMPUTED)
    is_nested = function is not Function.COMPUTED and (len(aggregates) > 1 or isinstance(node.this, exp.Distinct))
    refs = [resolve_column(schema, column) for column in node.find_all(exp.Column)]
    if not aggregates or is_nested or None in refs or node.find(exp.Window) is not None:
        return None
    columns = [ref for ref in refs if ref is not None]
    qualified = node.copy()
    for column, ref in zip(list(qualified.find_all(exp.Column)), columns, strict=True):
        column.replace(exp.column(ref.column, ref.table, quoted=True))
    inner = qualified if function is Function.COMPUTED else qualified.this
    sql = inner.sql(dialect=dialect, comments=False)
    return Formula(sql, dialect, tuple(dict.fromkeys(columns)), function) if len(sql) <= _MAX_LENGTH else None
