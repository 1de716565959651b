"""Decide how the columns of a result can be drawn: as times, quantities, categories, ids or free text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import chain, count

from everhold.ask.charts.periods import Grain, find_grain, format_time, read_time, read_year
from everhold.ask.charts.terminal_text import clean_text
from everhold.ports.result_table import AnswerColumn, ResultTable, ResultValue

# A value on a chart.
ChartValue = str | int | float | datetime | None

NO_VALUE = "(none)"
_MAX_LABEL_LENGTH = 60  # characters; a column with a longer label is free text
_ID_NAMES = re.compile(r"(^|\b)(id|ids|uuid|guid|key|code|zip|zipcode|postcode|phone|isbn|iban|sku)$")
# Numbers nearer to zero are drawn as zero, and larger ones are not drawn. Larger integers are not exact in JSON.
_MIN_MAGNITUDE, _MAX_MAGNITUDE, _MAX_EXACT_INTEGER = 1e-100, 1e100, 2**53
_YEAR_NAMES = frozenset({"year", "years"})
# Words for numbers that are labels in an order, not quantities, with the highest number of each.
_NUMBERED = {"month": 12, "quarter": 4, "weekday": 7, "hour": 24, "week": 53, "day": 31, "rank": 1000}
_ADDITIVE_FUNCTIONS = frozenset({"count", "sum"})
_ADDITIVE_NAMES = frozenset({"count", "sum", "total", "number", "revenue", "sales", "quantity", "share", "orders"})
_RATIO_NAMES = frozenset({"average", "avg", "mean", "median", "min", "minimum", "max", "maximum", "rate", "ratio"})
_SHARE_NAMES = frozenset({"share", "percent", "percentage", "proportion", "pct", "fraction"})
_CHANGE_NAMES = frozenset({"change", "growth", "delta", "difference", "diff", "increase"})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_CALL = re.compile(r"(count|sum|avg|min|max|median)\(\s*(.*)\)", re.IGNORECASE | re.DOTALL)
_FUNCTION_TITLES = {"sum": "total", "avg": "average", "min": "lowest", "max": "highest", "median": "median"}
# Well-known orders. A category whose values all belong to one of them is sorted by it.
_KNOWN_ORDERS = (
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
     "december"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("xs", "s", "m", "l", "xl", "xxl"),
    ("very low", "low", "medium", "high", "very high"),
    ("small", "medium", "large"),
)  # fmt: skip


class FieldType(StrEnum):
    """The ways in which the values of a column can be drawn."""

    TIME = "temporal"
    QUANTITY = "quantitative"
    ORDINAL = "ordinal"
    NOMINAL = "nominal"
    ID = "id"
    TEXT = "text"


@dataclass(frozen=True)
class ChartField:
    """A column of a chart. `name` is safe in a specification; `title` is what a person reads.

    `is_additive` says that values of several rows may be added up. `percent` is 1 for shares of 1, 100 for shares of
    100, and 0 for other quantities.
    """

    name: str
    title: str
    type: FieldType
    grain: Grain | None = None
    unit: str = ""
    is_additive: bool = False
    is_change: bool = False
    percent: int = 0

    @property
    def is_category(self) -> bool:
        return self.type in (FieldType.NOMINAL, FieldType.ORDINAL)

    @property
    def label(self) -> str:
        """The title with the unit."""
        unit = self.unit or ("%" if self.percent == 100 else "")
        return f"{self.title} ({unit})" if unit else self.title


@dataclass(frozen=True)
class ChartColumn:
    """A field and its values, one per row of the result."""

    field: ChartField
    values: tuple[ChartValue, ...]
    order: tuple[str, ...] = ()

    @property
    def distinct(self) -> int:
        return len(set(self.values))

    @property
    def is_unique(self) -> bool:
        return self.distinct == len(self.values)

    @property
    def numbers(self) -> list[float]:
        return [float(value) for value in self.values if isinstance(value, int | float)]


def read_columns(table: ResultTable) -> list[ChartColumn]:
    """Return the columns of a result with their fields for charts."""
    names = name_fields([column.name for column in table.columns])
    return [_read_column(column, table.values(index), names[index]) for index, column in enumerate(table.columns)]


def name_fields(names: Sequence[str]) -> list[str]:
    """Return unique field names of letters, digits and underscores, which are safe in a specification."""
    fields: list[str] = []
    for number, name in enumerate(names, start=1):
        plain = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")[:40]
        base = plain if plain and not plain[0].isdigit() else f"column_{number}"
        numbered = (f"{base}_{suffix}" for suffix in count(number))
        fields.append(next(field for field in chain([base], numbered) if field not in fields))
    return fields


def split_name(name: str) -> list[str]:
    """Return the words of a column's name in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def make_title(name: str) -> str:
    """Return a column's name as words: "sum(unit_price)" is "total unit price", "count_star()" is "count"."""
    if name.lower() in ("count_star()", "count(*)"):
        return "count"
    if call := _CALL.fullmatch(name.strip()):
        inner = make_title(call[2].rpartition(".")[2].removeprefix("DISTINCT "))
        function = call[1].lower()
        return (
            f"number of {inner.removesuffix(' id')}s"
            if function == "count"
            else f"{_FUNCTION_TITLES[function]} {inner}"
        )
    return clean_text(re.sub(r"[\s_]+", " ", name.strip().strip('"`')).strip()) or "value"


def _read_column(column: AnswerColumn, cells: Sequence[ResultValue], name: str) -> ChartColumn:
    """Return a column of a result with its kind for a chart: time, quantity, ordinal, id or label."""
    if not column.function and (call := _CALL.fullmatch(column.name.strip())):
        column = replace(column, function=call[1].lower())
    words = split_name(column.title or column.name)
    title = clean_text(column.title) or make_title(column.name)
    field = ChartField(name, title, FieldType.NOMINAL, unit=clean_text(column.unit))
    filled = [cell for cell in cells if cell is not None]
    if _are_years(column, words, filled):
        times = tuple(read_year(cell) for cell in cells)
        return ChartColumn(replace(field, type=FieldType.TIME, grain=Grain.YEAR), times)
    if filled and all(_is_number(cell) for cell in filled):
        return _read_numbers(column, words, cells, field)
    moments = [read_time(cell) for cell in filled]
    if moments and all(moments):
        grain = find_grain([moment for moment in moments if moment], words)
        return ChartColumn(replace(field, type=FieldType.TIME, grain=grain), tuple(read_time(cell) for cell in cells))
    return _read_labels(column, words, cells, field)


def _is_number(cell: ResultValue) -> bool:
    return isinstance(cell, int | float | Decimal) and not isinstance(cell, bool)


def _are_years(column: AnswerColumn, words: Sequence[str], cells: Sequence[ResultValue]) -> bool:
    if column.meaning != "year" and not (words and words[-1] in _YEAR_NAMES):
        return False
    if column.function == "count" or not cells:
        return False
    numbers = [_to_number(cell) if _is_number(cell) else None for cell in cells]
    return all(number is not None and number == int(number) and 1000 <= number < 3000 for number in numbers)


def _read_numbers(
    column: AnswerColumn, words: Sequence[str], cells: Sequence[ResultValue], field: ChartField
) -> ChartColumn:
    """Return a column of numbers as ids, as an ordinal such as a month, or as a quantity."""
    if not column.function and _is_id(column, words):
        labels = tuple(NO_VALUE if cell is None else str(cell) for cell in cells)
        return ChartColumn(replace(field, type=FieldType.ID), labels)
    numbers = tuple(_to_number(cell) for cell in cells)
    filled = [number for number in numbers if number is not None]
    last = words[-1] if words else ""
    if not column.function and last in _NUMBERED and _are_ordinals(filled, _NUMBERED[last]):
        order = tuple(str(number) for number in sorted({int(number) for number in filled}))
        labels = tuple(NO_VALUE if number is None else str(int(number)) for number in numbers)
        return ChartColumn(replace(field, type=FieldType.ORDINAL), labels, order)
    quantity = replace(
        field,
        type=FieldType.QUANTITY,
        is_additive=_is_additive(column, words),
        is_change=bool(_CHANGE_NAMES & set(words)),
        percent=_find_percent(words, filled),
    )
    return ChartColumn(quantity, numbers)


def _are_ordinals(numbers: Sequence[float], highest: int) -> bool:
    return all(0 <= number <= highest and number == int(number) for number in numbers)


def _is_id(column: AnswerColumn, words: Sequence[str]) -> bool:
    return column.meaning in ("id", "code") or (not column.meaning and bool(_ID_NAMES.search(" ".join(words))))


def _to_number(cell: ResultValue) -> int | float | None:
    """Return a number that can be drawn; None for infinite numbers and numbers so large that sums could be infinite."""
    if cell is None or (isinstance(cell, Decimal) and not cell.is_finite()):
        return None
    if isinstance(cell, int):
        # JSON readers keep only 53 bits of a whole number.
        return cell if abs(cell) < _MAX_EXACT_INTEGER else float(cell) if abs(cell) < _MAX_MAGNITUDE else None
    number = float(cell) if isinstance(cell, float | Decimal) else float(str(cell))
    if abs(number) < _MIN_MAGNITUDE:
        return 0.0
    return number if abs(number) < _MAX_MAGNITUDE else None


def _is_additive(column: AnswerColumn, words: Sequence[str]) -> bool:
    if column.function:
        return column.function in _ADDITIVE_FUNCTIONS
    return bool(_ADDITIVE_NAMES & set(words)) and not _RATIO_NAMES & set(words)


def _find_percent(words: Sequence[str], numbers: Sequence[float]) -> int:
    if not _SHARE_NAMES & set(words) or not numbers:
        return 0
    return 1 if all(-1 <= number <= 1.0001 for number in numbers) else 100


def _read_labels(
    column: AnswerColumn, words: Sequence[str], cells: Sequence[ResultValue], field: ChartField
) -> ChartColumn:
    labels = tuple(_to_label(cell) for cell in cells)
    if any(isinstance(cell, bytes) for cell in cells) or any(len(label) > _MAX_LABEL_LENGTH for label in labels):
        return ChartColumn(replace(field, type=FieldType.TEXT), labels)
    if _is_id(column, words) and column.meaning != "code" and words[-1] != "code":
        return ChartColumn(replace(field, type=FieldType.ID), labels)
    labels_by_word = {label.lower(): label for label in labels if label != NO_VALUE}
    for known_order in _KNOWN_ORDERS:
        if len(labels_by_word) > 1 and labels_by_word.keys() <= set(known_order):
            order = tuple(labels_by_word[word] for word in known_order if word in labels_by_word)
            return ChartColumn(replace(field, type=FieldType.ORDINAL), labels, order)
    return ChartColumn(field, labels)


def _to_label(cell: ResultValue) -> str:
    if cell is None or cell == "":
        return NO_VALUE
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, bytes):
        return f"{len(cell)} bytes"
    return clean_text(str(cell))


def format_cell(value: ChartValue, field: ChartField) -> str:
    """Return a value as text for people, with a precision that fits its size."""
    if value is None:
        return NO_VALUE
    if isinstance(value, datetime):
        return format_time(value, field.grain or Grain.DAY)
    if isinstance(value, str):
        return value
    return format_number(value, field)


def format_number(number: float, field: ChartField | None = None) -> str:
    """Return a number as text with thousands separators, with two or more decimals if it is not whole."""
    if field is not None and field.percent:
        return f"{100 * number / field.percent:,.1f} %"
    unit = f" {field.unit}" if field is not None and field.unit else ""
    if float(number).is_integer() and abs(number) < 1e15:
        return f"{int(number):,}{unit}"
    if 1 <= abs(number) < 1e15:
        return f"{number:,.2f}{unit}"
    return f"{number:.3g}{unit}"
