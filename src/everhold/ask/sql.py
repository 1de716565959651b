"""Write a frame as SQL: choose joins, leave out tables that are used only for their key, and quote all names."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from everhold.ask.formulas import write_formula
from everhold.ask.frame import (
    AnyPredicate,
    Expression,
    Function,
    Literal,
    Membership,
    Ordering,
    Predicate,
    QueryFrame,
    SetOperation,
    WindowKind,
)
from everhold.ask.frame_parts import list_columns, list_tables
from everhold.ask.joins import JoinTree, find_joins
from everhold.ask.schema import AskSchema, ColumnRef, ForeignKey
from everhold.ask.sql_grains import cut_date
from everhold.errors import InvalidInput

_COMPARISONS: Mapping[str, type[exp.Binary]] = {
    "=": exp.EQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE, "like": exp.Like,
}  # fmt: skip
_FUNCTIONS: Mapping[Function, type[exp.AggFunc]] = {
    Function.COUNT: exp.Count, Function.SUM: exp.Sum, Function.AVERAGE: exp.Avg, Function.MINIMUM: exp.Min,
    Function.MAXIMUM: exp.Max,
}  # fmt: skip
_SET_OPERATIONS: Mapping[SetOperation, type[exp.SetOperation]] = {
    SetOperation.INTERSECT: exp.Intersect, SetOperation.UNION: exp.Union, SetOperation.EXCEPT: exp.Except,
}  # fmt: skip


def write_sql(schema: AskSchema, frame: QueryFrame, dialect: str = "sqlite") -> str:
    """Return the SQL of a frame in a dialect. Raise InvalidInput if no keys connect its tables."""
    # Each tree is used only once, so it is not copied. By default sqlglot copies trees, which takes most of the time.
    return build_query(schema, frame, dialect).sql(dialect=dialect, copy=False)


def build_query(schema: AskSchema, frame: QueryFrame, dialect: str) -> exp.Query:
    """Return the expression tree of a frame."""
    query: exp.Query = _SelectBuilder(schema, frame, dialect).build()
    if frame.combined:
        operation, other = frame.combined
        query = _SET_OPERATIONS[operation](this=query, expression=build_query(schema, other, dialect), distinct=True)
    return query


class _SelectBuilder:
    """Builds the SELECT of one frame."""

    def __init__(self, schema: AskSchema, frame: QueryFrame, dialect: str) -> None:
        self._schema, self._frame, self._dialect = schema, frame, dialect
        self._moved: dict[ColumnRef, ColumnRef] = {}
        self._tree = self._drop_leaves(find_joins(schema, self._list_tables(), frame.via))

    def build(self) -> exp.Select:
        frame = self._frame
        selected = [self._write_selected(item) for item in frame.select] or [self._write_star()]
        query = exp.select(*selected, copy=False).from_(_write_table(self._tree.tables[0]), copy=False)
        query = self._join(query)
        for predicate in frame.where:
            query = query.where(self._write_condition(predicate), copy=False)
        if frame.group:
            query = query.group_by(*(self._write(item) for item in frame.group), copy=False)
        for predicate in frame.having:
            query = query.having(self._write_condition(predicate), copy=False)
        if frame.order:
            query = query.order_by(*map(self._write_ordering, frame.order), copy=False)
        query = query.limit(frame.limit, copy=False) if frame.limit is not None else query
        return query.distinct(copy=False) if frame.distinct else query

    def _list_tables(self) -> list[str]:
        return [*list_tables(self._frame), *(ref.table for ref in self._list_stored_columns())]

    def _list_stored_columns(self) -> Iterator[ColumnRef]:
        """Yield the stored columns that the frame uses. For a metric, these are the columns of its formula."""
        for ref in list_columns(self._frame):
            formula = self._schema.column(ref).formula
            yield from (ref,) if formula is None else formula.columns

    def _drop_leaves(self, tree: JoinTree) -> JoinTree:
        """Return the tree without tables of which only the key is used.

        The column that refers to the key has the same values, so it replaces the key.
        """
        needed = set(self._list_stored_columns())
        starred = set() if self._frame.select else {self._frame.entity}  # tables of which all columns are selected
        dropped = True
        while dropped:
            dropped = False
            for table in tree.tables:
                keys = [key for key in tree.keys if table in (key.table, key.to_table)]
                used = {self._moved.get(ref, ref) for ref in needed}
                table_columns = {ref for ref in used if ref.table == table}
                if len(keys) == 1 and table not in starred and _is_only_key_used(keys[0], table, table_columns):
                    self._move_key(keys[0], needed)
                    tree, dropped = tree.drop(table), True
                    break
        return tree

    def _move_key(self, key: ForeignKey, needed: set[ColumnRef]) -> None:
        for ref in needed:
            if self._moved.get(ref, ref) == key.to_ref:
                self._moved[ref] = key.ref

    def _join(self, query: exp.Select) -> exp.Select:
        present = {self._tree.tables[0]}
        remaining_keys = list(self._tree.keys)
        while remaining_keys:
            key = next(key for key in remaining_keys if key.table in present or key.to_table in present)
            remaining_keys.remove(key)
            table = key.to_table if key.table in present else key.table
            present.add(table)
            condition = exp.EQ(this=_write_column(key.ref, True), expression=_write_column(key.to_ref, True))
            query = query.join(_write_table(table), on=condition, copy=False)
        return query

    def _write_star(self) -> exp.Expr:
        if len(self._tree.tables) == 1:
            return exp.Star()
        return exp.Column(this=exp.Star(), table=exp.to_identifier(self._frame.entity, quoted=True))

    def _make_column(self, ref: ColumnRef) -> exp.Column:
        return _write_column(self._moved.get(ref, ref), len(self._tree.tables) > 1)

    def _write_selected(self, item: Expression) -> exp.Expr:
        """Write a selected expression. A column that is not grouped gets the value of any row of its group."""
        written = self._write(item)
        grouped = {(group.column, group.grain) for group in self._frame.group}
        is_ungrouped = bool(grouped) and item.function is None and (item.column, item.grain) not in grouped
        if item.column is None or not is_ungrouped or self._dialect == "sqlite":
            return written
        # MariaDB and older versions of PostgreSQL have no ANY_VALUE.
        chosen = exp.AnyValue(this=written) if self._dialect == "duckdb" else exp.Min(this=written)
        return exp.alias_(chosen, item.column.column, quoted=True, copy=False)

    def _write(self, item: Expression) -> exp.Expr:
        """Return the SQL of an expression: a column or a star, with its function, condition and window."""
        if item.column is None:
            inner: exp.Expr = exp.Star()
        else:
            inner = self._write_value(item.column, item.function)
            inner = cut_date(inner, item.grain, self._dialect) if item.grain else inner
        self._check_function(item)
        if item.function is None:
            return inner
        if item.condition is not None:
            return self._write_conditional_share(item.condition, inner)
        inner = exp.Distinct(expressions=[inner]) if item.distinct else inner
        written = inner if item.function is Function.COMPUTED else _FUNCTIONS[item.function](this=inner)
        if item.per is not None:
            divisor = exp.Count(this=exp.Distinct(expressions=[self._make_column(item.per)]))
            return exp.Div(this=_multiply_by_one(written), expression=divisor)
        return self._write_window(item, written) if item.window else written

    def _write_value(self, ref: ColumnRef, function: Function | None) -> exp.Expr:
        formula = self._schema.column(ref).formula
        if formula is None:
            return self._make_column(ref)
        written = write_formula(formula, self._make_column)
        is_operand = function in (None, Function.COMPUTED) and isinstance(written, exp.Binary)
        return exp.Paren(this=written) if is_operand else written

    def _check_function(self, item: Expression) -> None:
        """Raise InvalidInput for a formula that would be aggregated twice or not at all."""
        formula = None if item.column is None else self._schema.column(item.column).formula
        computes = formula is not None and formula.function is Function.COMPUTED
        if computes is not (item.function is Function.COMPUTED) or (computes and (item.condition or item.distinct)):
            fact = f"{'the metric' if computes else 'the column'} cannot be used here"
            raise InvalidInput(fact, value=str(item.column), remedy="ask for the metric by itself, or per group")

    def _write_conditional_share(self, condition: Predicate, value: exp.Expr) -> exp.Expr:
        """Write the share of the rows that meet a condition, or their share of the sum of a column."""
        is_count = isinstance(value, exp.Star)
        amount: exp.Expr = exp.Literal.number("1.0") if is_count else value
        counted = exp.Case().when(self._write_condition(condition), amount).else_(exp.Literal.number("0.0"))
        if is_count:
            return exp.Avg(this=counted)
        return exp.Div(this=_multiply_by_one(exp.Sum(this=counted)), expression=exp.Sum(this=value.copy()))

    def _write_window(self, item: Expression, value: exp.Expr) -> exp.Expr:
        order = exp.Order(expressions=[self._write(group) for group in self._frame.group])
        if item.window is WindowKind.SHARE:
            total = exp.Window(this=exp.Sum(this=value.copy()))
            return exp.Div(this=_multiply_by_one(value), expression=total)
        if not self._frame.group:
            return value  # without groups there are no earlier values
        if item.window is WindowKind.RUNNING:
            return exp.Window(this=exp.Sum(this=value), order=order)
        previous_value = exp.Window(this=exp.Lag(this=value.copy()), order=order)
        return exp.Sub(this=value, expression=previous_value)

    def _write_condition(self, predicate: Predicate | AnyPredicate | Membership) -> exp.Expr:
        if isinstance(predicate, AnyPredicate):
            return exp.or_(*map(self._write_condition, predicate.choices), copy=False)
        if isinstance(predicate, Membership):
            inner = build_query(self._schema, self._skip_nulls(predicate), self._dialect)
            is_member: exp.Expr = exp.In(this=self._make_column(predicate.column), query=inner.subquery(copy=False))
            return exp.Not(this=is_member) if predicate.negated else is_member
        written = self._write_predicate(predicate)
        return exp.Not(this=written) if predicate.negated else written

    def _skip_nulls(self, membership: Membership) -> QueryFrame:
        """Return the inner frame, without NULLs if it is negated, because NOT IN is never true if there is a NULL."""
        frame = membership.frame
        column = frame.select[0].column if frame.select else None
        if not membership.negated or column is None or not self._schema.column(column).has_nulls:
            return frame
        return replace(frame, where=(*frame.where, Predicate(Expression(column), "is null", negated=True)))

    def _write_predicate(self, predicate: Predicate) -> exp.Expr:
        """Return the SQL expression of a condition."""
        left = self._write(predicate.left)
        if predicate.operator == "is null":
            return exp.Is(this=left, expression=exp.Null())
        values = [_write_literal(value) for value in predicate.values]
        if predicate.operator == "in":
            return exp.In(this=left, expressions=values)
        if predicate.operator == "between":
            if predicate.half_open:
                return exp.and_(
                    exp.GTE(this=left, expression=values[0]),
                    exp.LT(this=left.copy(), expression=values[1]),
                    copy=False,
                )
            return exp.Between(this=left, low=values[0], high=values[1])
        right: exp.Expr
        if predicate.frame is not None:
            right = build_query(self._schema, predicate.frame, self._dialect).subquery(copy=False)
        else:
            right = values[0]
        return _COMPARISONS[predicate.operator](this=left, expression=right)

    def _write_ordering(self, ordering: Ordering) -> exp.Ordered:
        # If the position of NULLs is given, sqlglot adds no clause that a dialect may lack.
        return exp.Ordered(
            this=self._write(ordering.expression), desc=ordering.descending, nulls_first=not ordering.descending
        )


def _multiply_by_one(value: exp.Expr) -> exp.Expr:
    """Return a number multiplied by 1.0, so that a division keeps its fraction in every dialect."""
    return exp.Mul(this=value, expression=exp.Literal.number("1.0"))


def _is_only_key_used(key: ForeignKey, table: str, table_columns: set[ColumnRef]) -> bool:
    return key.to_table == table and key.table != table and table_columns <= {key.to_ref}


def _write_table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _write_column(ref: ColumnRef, qualified: bool) -> exp.Column:
    table = exp.to_identifier(ref.table, quoted=True) if qualified else None
    return exp.Column(this=exp.to_identifier(ref.column, quoted=True), table=table)


def _write_literal(value: Literal) -> exp.Expr:
    return exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(value)
