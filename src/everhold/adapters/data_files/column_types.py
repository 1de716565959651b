"""Detect the type of a column of texts and the format of its numbers and dates, and make the SQL that converts them."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from everhold.adapters.data_files.database import quote_name, quote_text

MISSING = (
    "",
    "-",
    "--",
    "?",
    "n/a",
    "na",
    "n.a.",
    "null",
    "none",
    "nan",
    "#n/a",
    "nil",
    "unknown",
    "missing",
    "(null)",
)
_CURRENCIES = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "CHF": "CHF", "EUR": "EUR", "USD": "USD",
               "GBP": "GBP", "%": "%"}  # fmt: skip
_UNIT = re.compile(r"^\s*([€$£¥₹]|CHF|EUR|USD|GBP)?\s*(.*?)\s*([€$£¥₹%]|CHF|EUR|USD|GBP)?\s*$")
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d{0,17})")
_DECIMAL_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_DECIMAL_POINT_GROUPED = re.compile(r"[+-]?\d{1,3}([,' \u00a0\u202f]\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DECIMAL_COMMA_GROUPED = re.compile(r"[+-]?\d{1,3}([.' \u00a0\u202f]\d{3})+(,\d+)?")
_FLAG = re.compile(r"true|false", re.IGNORECASE)
_DATES: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("year-month-day", re.compile(r"\d{4}-\d{1,2}-\d{1,2}"), "%Y-%m-%d"),
    ("year/month/day", re.compile(r"\d{4}/\d{1,2}/\d{1,2}"), "%Y/%m/%d"),
    ("day.month.year", re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"), "%d.%m.%Y"),
    ("day.month.year", re.compile(r"\d{1,2}\.\d{1,2}\.\d{2}"), "%d.%m.%y"),
    ("month/day/year", re.compile(r"\d{1,2}/\d{1,2}/\d{4}"), "%m/%d/%Y"),
    ("day/month/year", re.compile(r"\d{1,2}/\d{1,2}/\d{4}"), "%d/%m/%Y"),
    ("month/day/year", re.compile(r"\d{1,2}/\d{1,2}/\d{2}"), "%m/%d/%y"),
    ("day/month/year", re.compile(r"\d{1,2}/\d{1,2}/\d{2}"), "%d/%m/%y"),
    ("day-month-year", re.compile(r"\d{1,2}-\d{1,2}-\d{4}"), "%d-%m-%Y"),
    ("day-month-year", re.compile(r"\d{1,2}-[A-Za-z]{3}-\d{4}"), "%d-%b-%Y"),
    ("day-month-year", re.compile(r"\d{1,2}-[A-Za-z]{3}-\d{2}"), "%d-%b-%y"),
    ("day month year", re.compile(r"\d{1,2} [A-Za-z]{3} \d{4}"), "%d %b %Y"),
    ("day month year", re.compile(r"\d{1,2} [A-Za-z]{4,9} \d{4}"), "%d %B %Y"),
    ("month day, year", re.compile(r"[A-Za-z]{3} \d{1,2}, \d{4}"), "%b %d, %Y"),
    ("month day, year", re.compile(r"[A-Za-z]{4,9} \d{1,2}, \d{4}"), "%B %d, %Y"),
)
_TIME = re.compile(r"^(.*\d)[ T](\d{1,2}:\d{2}(:\d{2})?(\.\d{1,6})?)(Z|[+-]\d{2}:?\d{2})?$")
_DIGITS = re.compile(r"\d+")
# The share of a column's filled values that must fit a type. The remaining values become NULL and are reported.
_SHARE_THAT_FITS = 0.98
_MIN_VALUES_TO_DROP = 20
_MAX_LENGTH = 60  # characters of a number or a date


@dataclass(frozen=True)
class FileColumnType:
    """A type, and the notation of its values. DuckDB can read the values of a plain type itself.

    `style` is "point" or "comma" for numbers, and the order of day, month and year for dates. `format` is the pattern
    for `strptime`.
    """

    sql_type: str = "VARCHAR"
    style: str = ""
    unit: str | None = None
    is_plain: bool = True
    format: str = ""

    def convert(self, name: str) -> str:
        """Return the SQL expression that converts a column of texts; NULL for a text that does not fit."""
        column = quote_name(name)
        if self.sql_type == "VARCHAR":
            return column
        if self.is_plain:
            return f"try_cast(trim({column}) AS {self.sql_type})"
        if self.format:
            return f"try_strptime(trim({column}), {quote_text(self.format)})::{self.sql_type}"
        return _convert_number(column, self)


TEXT = FileColumnType()


def _convert_number(column: str, column_type: FileColumnType) -> str:
    cleaned = f"regexp_replace({column}, '[^0-9,.+()eE-]', '', 'g')"
    # (12.50) in books means -12.50.
    signed = f"regexp_replace({cleaned}, '^[(](.*)[)]$', '-\\1')"
    separator, decimal_mark = (".", ",") if column_type.style == "comma" else (",", ".")
    ungrouped = f"replace({signed}, {quote_text(separator)}, '')"
    text = f"replace({ungrouped}, ',', '.')" if decimal_mark == "," else ungrouped
    return f"try_cast({text} AS {column_type.sql_type})"


def is_missing(text: str) -> bool:
    return text.strip().lower() in MISSING


def detect_type(values: Sequence[str], decimal: str | None = None) -> FileColumnType:
    """Return the type of a sample of texts. `decimal` is "comma" or "point" if other columns show which it is."""
    texts = [value.strip() for value in values if not is_missing(value)]
    if not texts:
        return TEXT
    if sum(len(text) > _MAX_LENGTH for text in texts) > (1 - _SHARE_THAT_FITS) * len(texts):
        return TEXT
    texts = [text for text in texts if len(text) <= _MAX_LENGTH]
    min_fitting = len(texts) if len(texts) < _MIN_VALUES_TO_DROP else _SHARE_THAT_FITS * len(texts)

    def fits(check: Callable[[str], object]) -> bool:
        return sum(1 for text in texts if check(text)) >= min_fitting

    if fits(_FLAG.fullmatch):
        return FileColumnType("BOOLEAN")
    if fits(_INTEGER.fullmatch):
        return FileColumnType("BIGINT")
    if fits(_DECIMAL_POINT.fullmatch) and not _has_leading_zero(texts):
        is_comma = decimal == "comma" and fits(
            lambda text: _DECIMAL_COMMA_GROUPED.fullmatch(text) or _INTEGER.fullmatch(text)
        )
        return FileColumnType("DOUBLE", "comma" if is_comma else "point", is_plain=not is_comma)
    return _detect_date(texts, fits) or _detect_formatted_number(texts, min_fitting, decimal) or TEXT


def _has_leading_zero(texts: Sequence[str]) -> bool:
    return any(len(text) > 1 and text[0] == "0" and text[1].isdigit() for text in texts)


def _detect_date(texts: Sequence[str], fits: Callable[[Callable[[str], object]], bool]) -> FileColumnType | None:
    time_matches = [match for text in texts if (match := _TIME.match(text))]
    has_time = len(time_matches) > len(texts) / 2
    for style, pattern, date_format in _DATES:
        if has_time:
            if not fits(partial(_has_day, pattern)):
                continue
            days = [match[1] for match in time_matches if pattern.fullmatch(match[1])]
        else:
            if not fits(pattern.fullmatch):
                continue
            days = [text for text in texts if pattern.fullmatch(text)]
        if not _is_possible(days, date_format):
            continue
        if date_format == "%Y-%m-%d":
            return FileColumnType("TIMESTAMP" if has_time else "DATE", style)
        if not has_time:
            return FileColumnType("DATE", style, is_plain=False, format=date_format)
        if any(match[5] or match[4] for match in time_matches):
            return None
        clock = "%H:%M:%S" if time_matches[0][3] else "%H:%M"
        separator = "T" if "T" in texts[0] else " "
        return FileColumnType("TIMESTAMP", style, is_plain=False, format=f"{date_format}{separator}{clock}")
    return None


def _has_day(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a text is a day in the form of `pattern`, followed by a time."""
    match = _TIME.match(text)
    return match is not None and pattern.fullmatch(match[1]) is not None


def _is_possible(days: Sequence[str], date_format: str) -> bool:
    """Return whether the numbers can be days and months in the order of the format: 12/31 has no 31st month."""
    if "%b" in date_format or "%B" in date_format:
        return True
    order = re.findall(r"%(.)", date_format)
    for day in days:
        numbers = dict(zip(order, map(int, _DIGITS.findall(day)), strict=False))
        if not 1 <= numbers.get("m", 1) <= 12 or not 1 <= numbers.get("d", 1) <= 31:
            return False
    return True


def is_ambiguous_date(values: Sequence[str], column_type: FileColumnType) -> bool:
    """Return whether day and month could be exchanged in every value of a sample."""
    if column_type.style not in ("month/day/year", "day/month/year"):
        return False
    return all(int(number) <= 12 for value in values for number in _DIGITS.findall(value)[:2])


def _detect_formatted_number(texts: Sequence[str], min_fitting: float, decimal: str | None) -> FileColumnType | None:
    """Return the type of numbers with a decimal comma, separators of thousands, a currency or a percent sign."""
    styles: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for text in texts:
        match = _UNIT.match(text)
        prefix, body, suffix = match.groups() if match else (None, text, None)
        body = body.strip("()").strip() if body.startswith("(") else body
        style = _find_style(body, decimal)
        if style is None:
            continue
        styles[style] += 1
        if unit := prefix or suffix:
            units[_CURRENCIES[unit]] += 1
    if sum(styles.values()) < min_fitting or _has_leading_zero(texts):
        return None
    style = "comma" if styles["comma"] > styles["point"] or (decimal == "comma" and not styles["point"]) else "point"
    unit = units.most_common(1)[0][0] if units and len(units) == 1 else None
    return FileColumnType("DOUBLE", style, unit, is_plain=False)


def _find_style(body: str, decimal: str | None) -> str | None:
    """Return "integer", "point" or "comma" for the text of a number; None if it is none."""
    if _INTEGER.fullmatch(body):
        return "integer"
    is_point = _DECIMAL_POINT.fullmatch(body) or _DECIMAL_POINT_GROUPED.fullmatch(body)
    is_comma = _DECIMAL_COMMA.fullmatch(body) or _DECIMAL_COMMA_GROUPED.fullmatch(body)
    if is_point and is_comma:  # 1,234 or 1.234: thousands unless other values of the file say otherwise
        return decimal or "point"
    if is_point:
        return "point"
    return "comma" if is_comma else None
