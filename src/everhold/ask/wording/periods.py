"""Write periods and days in words: "in March 2025", "from 1 March to 15 March 2025"."""

from datetime import date, timedelta

_MONTHS_OF_QUARTER = 3


def describe_period(start: date, end: date) -> str:
    """Return the days from `start` up to, but not including, `end` as a phrase with a preposition."""
    last = end - timedelta(days=1)
    if start == last:
        return f"on {write_day(start)}"
    if start.day == 1 and end.day == 1:
        return _describe_months(start, last, 12 * (end.year - start.year) + end.month - start.month)
    # Both days are written in full, but the year only once.
    first = f"{start.day} {start:%B}" if start.year == last.year else write_day(start)
    return f"from {first} to {write_day(last)}"


def _describe_months(start: date, last: date, count: int) -> str:
    if start.month == 1 and last.month == 12:
        return f"in {start.year}" if start.year == last.year else f"from {start.year} to {last.year}"
    if count == 1:
        return f"in {start:%B} {start.year}"
    if count == _MONTHS_OF_QUARTER and start.month % _MONTHS_OF_QUARTER == 1:
        return f"in the {_ORDINALS[start.month // _MONTHS_OF_QUARTER]} quarter of {start.year}"
    first = f"{start:%B}" if start.year == last.year else f"{start:%B} {start.year}"
    return f"from {first} to {last:%B} {last.year}"


_ORDINALS = ("first", "second", "third", "fourth")


def write_day(day: date) -> str:
    """Return a day as "5 March 2025"."""
    return f"{day.day} {day:%B} {day.year}"


def describe_bound(operator: str, day: date) -> str:
    """Return a comparison with a day: "before 2024", "since 1 May 2025"."""
    is_new_year = (day.month, day.day) == (1, 1)
    text = str(day.year) if is_new_year and operator in ("<", ">=") else write_day(day)
    return f"{_BOUNDS[operator]} {text}"


_BOUNDS = {"<": "before", "<=": "until", ">": "after", ">=": "since", "=": "on", "!=": "not on"}


def read_day(value: object) -> date | None:
    """Return a literal of a frame as a day; None if it is not a day."""
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        return None
