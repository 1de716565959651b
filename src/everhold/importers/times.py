"""Times as other systems write them: numbers since 1970, ISO 8601, and local dates, often without a zone."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from everhold.clock import EPOCH
from everhold.importers.local_dates import DateOrder, UnknownOrderError, parse_local

# Numbers above this are milliseconds: as seconds they would be after the year 5000.
_MILLISECONDS_FROM = 1e11
_MICROSECONDS_FROM = 1e14
_NANOSECONDS_FROM = 1e17
_NUMBER = re.compile(r"-?\d{9,}(\.\d+)?")
_COMPACT_DIGITS = 14  # 20240301180100; milliseconds have 13 digits until 2286
_SPACED_ZONE = re.compile(r" (UTC|GMT|Z)$")
_MAX_LENGTH = 80


@dataclass
class TimeReader:
    """Reads the times of one input, and notes what it had to assume."""

    zone: tzinfo
    """The zone of times without one."""
    date_order: DateOrder | None = None
    """The order of day and month in ambiguous dates; None if it is not known."""
    has_naive: bool = False
    """Whether there were times without a zone."""
    has_unknown_order: bool = False
    """Whether there were dates that may have the day or the month first."""
    seen_orders: set[DateOrder] = field(default_factory=set)
    """The orders found in unambiguous dates."""

    def read(self, value: Any) -> datetime | None:
        """Return the moment that a value names; None for an absent value. Raise ValueError if it is not a time."""
        if value is None or value == "":
            return None
        if isinstance(value, datetime):
            return self._localize(value)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"{value!r:.60} is not a time")
        text = value.strip() if isinstance(value, str) else ""
        if not isinstance(value, str) or _NUMBER.fullmatch(text):
            digits = text or str(value)
            if len(digits) != _COMPACT_DIGITS or not digits.startswith(("19", "20")):
                return _read_number(float(digits))
            text = digits
        try:
            return self._localize(self._parse(text)).astimezone(UTC)
        except UnknownOrderError:
            self.has_unknown_order = True
            remedy = "pass the order of its dates (date_order, --date-order): dmy or mdy"
            raise ValueError(f"{value!r:.60} may have the day or the month first; {remedy}") from None
        except (ValueError, OverflowError):
            raise ValueError(f"{value!r:.60} is not a time") from None

    def _parse(self, text: str) -> datetime:
        try:
            return datetime.fromisoformat(_SPACED_ZONE.sub("+00:00", text).replace("/", "-"))
        except ValueError:
            parsed = parse_local(text, self.date_order) if len(text) <= _MAX_LENGTH else None
        if parsed is None:
            raise ValueError(text)
        moment, numbers = parsed
        if numbers is not None and (order := numbers.find_order()) is not None and numbers.separator != ".":
            self.seen_orders.add(order)
        return moment

    def _localize(self, moment: datetime) -> datetime:
        if moment.tzinfo is not None:
            return moment
        self.has_naive = True
        return moment.replace(tzinfo=self.zone)

    def find_order(self) -> DateOrder | None:
        """Return the order of the input's unambiguous dates, if some dates are ambiguous and all others agree."""
        orders = self.seen_orders - {"ymd"}
        return orders.pop() if self.has_unknown_order and len(orders) == 1 else None


def _read_number(number: float) -> datetime:
    seconds = number
    # Each limit is 1e8 times the number of its units in a second.
    for limit in (_NANOSECONDS_FROM, _MICROSECONDS_FROM, _MILLISECONDS_FROM):
        if abs(number) >= limit:
            seconds = number / (limit / 1e8)
            break
    try:
        return EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise ValueError(f"{number!r:.60} is not a time") from None
