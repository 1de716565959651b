"""Detect the semantic type of a column, such as money, a ratio or an e-mail address, and the unit of its numbers."""

import re
from collections.abc import Sequence

from everhold.ask.profile.kinds import is_numeric
from everhold.ask.schema import ColumnKind
from everhold.ports.table_content import ColumnContent

_CURRENCIES = frozenset({"EUR", "USD", "GBP", "JPY", "CHF", "INR", "CAD", "AUD", "CNY", "SEK", "NOK", "DKK"})
_UNITS = {
    "kg": "kg", "g": "g", "lb": "lb", "lbs": "lb", "km": "km", "m": "m", "cm": "cm", "mm": "mm", "mi": "mi",
    "miles": "mi", "ft": "ft", "percent": "%", "pct": "%", "hours": "h", "hrs": "h", "minutes": "min", "mins": "min",
    "seconds": "s", "secs": "s", "ms": "ms", "days": "d", "celsius": "°C", "fahrenheit": "°F", "kwh": "kWh",
    "mb": "MB", "gb": "GB", "usd": "USD", "eur": "EUR", "gbp": "GBP", "chf": "CHF", "%": "%", "€": "EUR", "$": "USD",
    "£": "GBP", "litres": "l", "liters": "l", "sqm": "m²", "m2": "m²",
}  # fmt: skip
_IN_BRACKETS = re.compile(r"[(\[]\s*(?:in\s+)?([^)\]]{1,12}?)\s*[)\]]\s*$", re.IGNORECASE)
_MONEY_WORDS = frozenset({"price", "revenue", "cost", "salary", "budget", "turnover", "fee", "tax", "profit", "income"})
_PATTERNS = (
    ("email", re.compile(r"[^@\s]+@[^@\s]+\.[a-z]{2,}", re.IGNORECASE)),
    ("url", re.compile(r"https?://\S+|www\.\S+\.\S+", re.IGNORECASE)),
    ("phone", re.compile(r"\+?[\d][\d ()/.-]{6,18}\d")),
)
_SAMPLE_SIZE = 100


def find_unit(name: str, words: Sequence[str]) -> str | None:
    """Return the unit in the name of a column, as in "weight_kg" or "price (EUR)"; None if it has none."""
    match = _IN_BRACKETS.search(name)
    if match:
        return _UNITS.get(match[1].lower())
    last = words[-1].lower() if words else ""
    # One letter at the end of a name, as in "group_m", is rarely a unit.
    return _UNITS.get(last) if len(last) > 1 and len(words) > 1 else None


def detect_semantic_type(column: ColumnContent, words: Sequence[str], kind: ColumnKind, unit: str | None) -> str:
    """Return the semantic type of a column: its kind, or a more specific type such as "currency" or "email"."""
    if kind is ColumnKind.MEASURE:
        if unit == "%" or {"percent", "rate", "share", "ratio"} & set(words):
            return "ratio"
        if unit in _CURRENCIES or _MONEY_WORDS & set(words):
            return "currency"
        if {"latitude", "longitude"} & set(words):
            return "geo"
    if kind in (ColumnKind.TEXT, ColumnKind.CATEGORY) and not is_numeric(column):
        sample = [str(value).strip() for value in column.values[:_SAMPLE_SIZE]]
        for name, pattern in _PATTERNS:
            if sample and all(pattern.fullmatch(value) for value in sample):
                return name
    return kind.value
