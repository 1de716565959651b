"""Read a query frame that a language model wrote as JSON. Names are looked up in the schema, and values are checked."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from everhold.ask.frame import Expression, Function, Literal, Ordering, Predicate, QueryFrame
from everhold.ask.schema import AskSchema, ColumnRef
from everhold.errors import InvalidInput

_GRAINS: Final = frozenset({"year", "quarter", "month", "week", "day"})
_OPERATORS: Final = frozenset({"=", "!=", "<", "<=", ">", ">=", "between", "in", "like", "is null"})
# The minimum and maximum number of values of an operator that does not take exactly one.
_VALUE_COUNTS: Final[Mapping[str, tuple[int, int]]] = {"between": (2, 2), "in": (1, 100), "is null": (0, 0)}
_MAX_ITEMS: Final = 20
_MAX_LIMIT: Final = 10_000


def read_frame(document: Mapping[str, Any], schema: AskSchema) -> QueryFrame:
    """Return the frame of a JSON object; raise InvalidInput if a part of it is unknown or malformed.

    The object has `table`, and may have `select`, `where`, `group`, `order`, `limit` and `distinct`. Columns are
    written "table.column", or "column" if it is one of `table`.
    """
    names = _Names(schema, document.get("table", document.get("entity")))
    limit = document.get("limit")
    if limit is not None and (type(limit) is not int or not 0 < limit <= _MAX_LIMIT):
        raise _refuse("limit", limit)
    return QueryFrame(
        names.table,
        select=tuple(names.read_expression(item) for item in _read_list(document, "select")),
        distinct=document.get("distinct") is True,
        where=tuple(names.read_predicate(item) for item in _read_list(document, "where")),
        group=tuple(names.read_expression(item) for item in _read_list(document, "group")),
        having=tuple(names.read_predicate(item) for item in _read_list(document, "having")),
        order=tuple(
            Ordering(names.read_expression(item), isinstance(item, dict) and item.get("descending") is True)
            for item in _read_list(document, "order")
        ),
        limit=limit,
    )


class _Names:
    """Looks up the names of one frame in the schema, ignoring their case."""

    def __init__(self, schema: AskSchema, table: object) -> None:
        tables = {item.name.casefold(): item.name for item in schema.tables}
        if not isinstance(table, str) or table.casefold() not in tables:
            raise _refuse("table", table)
        self.table = tables[table.casefold()]
        self._columns = {f"{column.table}.{column.name}".casefold(): column.ref for column in schema.columns()}

    def read_column(self, name: object) -> ColumnRef:
        for full_name in (str(name), f"{self.table}.{name}"):
            if isinstance(name, str) and full_name.casefold() in self._columns:
                return self._columns[full_name.casefold()]
        raise _refuse("column", name)

    def read_expression(self, item: object) -> Expression:
        """Return a column, a function of a column, or without a column a count of rows."""
        if isinstance(item, str):
            return Expression(self.read_column(item))
        if not isinstance(item, dict):
            raise _refuse("expression", item)
        name, column, grain = item.get("function"), item.get("column"), item.get("grain")
        if name is not None and name not in tuple(Function):
            raise _refuse("function", name)
        if grain is not None and grain not in _GRAINS:
            raise _refuse("grain", grain)
        if column in (None, "*"):
            if name != Function.COUNT:
                raise _refuse("column", column)
            return Expression(function=Function.COUNT)
        function = None if name is None else Function(name)
        return Expression(self.read_column(column), function, item.get("distinct") is True, grain=grain)

    def read_predicate(self, item: object) -> Predicate:
        if not isinstance(item, dict) or item.get("operator") not in _OPERATORS:
            raise _refuse("condition", item)
        operator = item["operator"]
        raw = item.get("values", item.get("value"))
        values: Sequence[Any] = raw if isinstance(raw, list) else [] if raw is None else [raw]
        min_count, max_count = _VALUE_COUNTS.get(operator, (1, 1))
        if not min_count <= len(values) <= max_count or not all(map(_is_literal, values)):
            raise _refuse("value", raw)
        return Predicate(self.read_expression(item), operator, tuple(values), negated=item.get("negated") is True)


def _is_literal(value: object) -> bool:
    return isinstance(value, Literal) and not isinstance(value, bool)


def _read_list(document: Mapping[str, Any], name: str) -> list[Any]:
    items = document.get(name) or []
    if not isinstance(items, list) or len(items) > _MAX_ITEMS:
        raise _refuse(name, items)
    return items


def _refuse(part: str, value: object) -> InvalidInput:
    return InvalidInput(f"the frame has no valid {part}", value=repr(value), remedy="use the names of the schema")
