"""Choose the function that aggregates a measure if the question names none."""

from dataclasses import replace

from everhold.ask.frame import Expression, Function, Ordering, QueryFrame
from everhold.ask.language.stems import stem
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind

# Words of measures that are averaged, not added up: "rating by city" means the average.
_AVERAGED = frozenset(map(stem, ("price", "age", "rating", "score", "rate", "percent", "percentage", "ratio", "share",
                                 "temperature", "grade", "gpa", "height", "latitude", "longitude", "discount",
                                 "satisfaction", "average", "rank", "level", "speed", "horsepower", "power",
                                 "weight", "width", "depth", "efficiency")))  # fmt: skip
_UNIT = stem("unit")
# Words of measures that are amounts of money. Better words come first.
_AMOUNTS = tuple(
    map(stem, ("amount", "total", "revenue", "sale", "value", "payment", "price", "cost", "fee", "salary"))
)
_MONEY_WORDS = frozenset({*_AMOUNTS, *map(stem, ("usd", "eur", "gbp", "chf", "money", "income", "spending", "paid"))})
# Tables whose rows are amounts of money: "total refunds" is a sum, "total orders" a count.
_MONEY_TABLES = frozenset(map(stem, ("refund", "payment", "sale", "expense", "donation", "purchase", "fee", "tip",
                                     "bonus", "deposit", "withdrawal", "cost", "fine", "budget", "salary", "charge",
                                     "revenue", "spending", "earning", "income", "payout", "grant")))  # fmt: skip


def choose_function(schema: AskSchema, column: AskColumn) -> Function:
    """Return the function that aggregates a measure: that of its formula, else an average for rates, else a sum."""
    if column.formula is not None:
        return column.formula.function
    if not set(column.words) & _AVERAGED:
        return Function.SUM
    # The price in a table of purchases is an amount that was paid, and is added up; the price of a product is not.
    is_paid = is_money(column) and holds_money(schema.table(column.table)) and _UNIT not in column.words
    return Function.SUM if is_paid else Function.AVERAGE


def find_amount(table: AskTable) -> AskColumn | None:
    """Return the measure that is the amount of a table's rows, such as an invoice's total; None if there is none."""
    measures = [column for column in table.columns if column.kind is ColumnKind.MEASURE]
    amounts = [column for word in _AMOUNTS for column in measures if word in column.words]
    candidates = amounts or (measures if len(measures) == 1 else [])
    return candidates[0] if candidates else None


def is_money(column: AskColumn) -> bool:
    """Return whether a measure is an amount of money, by the words of its name."""
    return column.kind is ColumnKind.MEASURE and bool(set(column.words) & _MONEY_WORDS)


def holds_money(table: AskTable) -> bool:
    """Return whether the rows of a table are amounts of money, such as refunds."""
    return bool(set(table.core) & _MONEY_TABLES)


def sum_grouped_measures(schema: AskSchema, frame: QueryFrame) -> QueryFrame:
    """Return the frame with a function added to grouped measures without one: "revenue per store" means the sum."""
    if not frame.group or any(item.function is not None for item in frame.select):
        return frame
    group_columns = {group.column for group in frame.group}
    # If rows are grouped by the key of a table, each group has one row of it, so its measures need no function.
    keyed_tables = {ref.table for ref in group_columns if ref is not None and ref == schema.table(ref.table).key_ref}

    def add_function(item: Expression) -> Expression:
        if (
            item.column is None
            or item.column in group_columns
            or item.grain is not None
            or item.column.table in keyed_tables
        ):
            return item
        column = schema.column(item.column)
        return replace(item, function=choose_function(schema, column)) if column.kind is ColumnKind.MEASURE else item

    return replace(frame, select=tuple(add_function(item) for item in frame.select))


def sort_periods(schema: AskSchema, frame: QueryFrame) -> QueryFrame:
    """Return the frame with aggregates per period sorted by time, unless it has another sort order."""
    periods = [item for item in frame.group if item.column is not None and schema.column(item.column).is_time]
    has_figures = any(item.is_aggregate for item in frame.select)
    is_shown = bool(periods) and periods[0] in frame.select
    if frame.order or frame.limit is not None or frame.combined or not has_figures or not is_shown:
        return frame
    return replace(frame, order=(Ordering(periods[0]),))
