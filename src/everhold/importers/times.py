"""Parse the times of other systems: seconds or milliseconds since 1970, or ISO 8601, often without a zone."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from everhold.clock import EPOCH

# Numbers above this are milliseconds: as seconds they would be after the year 5000.
_MILLISECONDS_FROM = 1e11
_MICROSECONDS_FROM = 1e14
_NUMBER = re.compile(r"-?\d{9,}(\.\d+)?")
_SPACED_ZONE = re.compile(r" (UTC|GMT|Z)$")


def parse_time(value: Any, zone: tzinfo) -> datetime | None:
    """Return the time of a value; None for an absent value. `zone` is used for times without a zone.

    Raise ValueError if the value is not a time.
    """
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=zone)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r:.60} is not a time")
    if isinstance(value, int | float):
        return _from_number(float(value))
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return _from_number(float(text))
    try:
        moment = datetime.fromisoformat(_SPACED_ZONE.sub("+00:00", text).replace("/", "-"))
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{value!r:.60} is not a time") from None


def _from_number(number: float) -> datetime:
    if abs(number) >= _MICROSECONDS_FROM:
        number /= 1e6
    elif abs(number) >= _MILLISECONDS_FROM:
        number /= 1e3
    try:
        return EPOCH + timedelta(seconds=number)
    except (OverflowError, ValueError):
        raise ValueError(f"{number!r:.60} is not a time") from None
