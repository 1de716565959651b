"""Detect what the values of a column mean, by its name, its declared type and its values."""

import re
from collections.abc import Sequence

from everhold.ask.schema import ColumnKind
from everhold.ports.table_content import Cell, ColumnContent

_DATE = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}(:\d{2})?.*)?\s*")
_NUMBER = re.compile(r"\s*-?\d+(\.\d+)?\s*")
_NUMERIC_TYPES = re.compile(r"int|real|floa|doub|num|dec|money|serial", re.IGNORECASE)
_DATE_TYPES = re.compile(r"date|time", re.IGNORECASE)
_FLAG_TYPES = re.compile(r"bool|bit", re.IGNORECASE)
_FLAG_VALUES = frozenset({"0", "1", "y", "n", "yes", "no", "t", "f", "true", "false"})
_TRUE_VALUES = frozenset({"1", "y", "yes", "t", "true"})
_ID_WORDS = frozenset({"id", "key", "uuid", "guid"})
_MISSING = frozenset({"", "null", "none", "na", "n/a", "nan", "-", "?", "unknown"})
_SAMPLE_SIZE = 200
_MAX_CATEGORIES = 50


def detect_kind(column: ColumnContent, words: Sequence[str], row_count: int) -> ColumnKind:
    """Return the kind of a column. `words` are the words of its name."""
    kind = _find_special_kind(column, words)
    if kind is not None:
        return kind
    has_few_values = column.distinct_count <= max(_MAX_CATEGORIES, row_count // 10)
    return ColumnKind.CATEGORY if has_few_values and column.distinct_count < row_count else ColumnKind.TEXT


def _find_special_kind(column: ColumnContent, words: Sequence[str]) -> ColumnKind | None:
    if words and words[-1] in _ID_WORDS:
        return ColumnKind.ID
    sample = [value for value in column.values[:_SAMPLE_SIZE] if value is not None]
    if _is_flag(column, sample):
        return ColumnKind.FLAG
    if "year" in words and _are_years(sample):
        return ColumnKind.YEAR
    if _is_date(column, sample):
        return ColumnKind.DATE
    if "code" in words:
        return ColumnKind.CODE
    return ColumnKind.MEASURE if is_numeric(column) else None


def is_numeric(column: ColumnContent) -> bool:
    """Return whether the values are numbers.

    This is decided by the declared type, or else by a sample, in which words for missing values are ignored.
    """
    if _NUMERIC_TYPES.search(column.declared_type):
        return True
    sample = [value for value in column.values[:_SAMPLE_SIZE] if str(value).strip().lower() not in _MISSING]
    return bool(sample) and all(isinstance(value, int | float) or _NUMBER.fullmatch(str(value)) for value in sample)


def _is_flag(column: ColumnContent, sample: Sequence[Cell]) -> bool:
    if _FLAG_TYPES.search(column.declared_type):
        return True
    if column.distinct_count > 2:
        return False
    texts = {str(value).strip().lower() for value in sample}
    return bool(texts) and texts <= _FLAG_VALUES


def find_true_value(column: ColumnContent) -> str | int | None:
    """Return the value that means "yes" in a column of flags."""
    for value in column.values:
        if str(value).strip().lower() in _TRUE_VALUES and isinstance(value, str | int):
            return value
    return 1 if not column.values else None


def _is_date(column: ColumnContent, sample: Sequence[Cell]) -> bool:
    if _DATE_TYPES.search(column.declared_type):
        return True
    texts = [value for value in sample if isinstance(value, str)]
    return bool(texts) and len(texts) == len(sample) and all(_DATE.fullmatch(text) for text in texts)


def _are_years(sample: Sequence[Cell]) -> bool:
    return all(_NUMBER.fullmatch(str(value)) for value in sample)
