"""Read times from cells, find the precision that they have, and format them with it."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum

_DAY_OR_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_PERIOD = re.compile(r"(?P<year>[12]\d{3})(-(?P<month>0[1-9]|1[0-2])|[- ]?Q(?P<quarter>[1-4])|-?W(?P<week>[0-5]\d))?")


class Grain(StrEnum):
    """The length of the periods that times stand for."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    MINUTE = "minute"


# The format of each grain on a Vega axis, in the syntax of d3-time-format.
AXIS_FORMATS = {
    Grain.YEAR: "%Y",
    Grain.QUARTER: "Q%q %Y",
    Grain.MONTH: "%b %Y",
    Grain.WEEK: "%d %b %Y",
    Grain.DAY: "%d %b %Y",
    Grain.MINUTE: "%d %b %H:%M",
}


def read_time(value: object) -> datetime | None:
    """Return a cell as a time without a zone; None if it is not a time. Times with a zone are converted to UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, date):
        return datetime.combine(value, time())
    if isinstance(value, str):
        return _read_text(value.strip())
    return None


def _read_text(text: str) -> datetime | None:
    try:
        if _DAY_OR_TIME.fullmatch(text):
            return read_time(datetime.fromisoformat(text))
        if period := _PERIOD.fullmatch(text):
            year, month, quarter, week = (int(period[name] or 0) for name in ("year", "month", "quarter", "week"))
            first = datetime.combine(date(year, month or 3 * max(quarter, 1) - 2, 1), time())
            return first + timedelta(weeks=week)
    except ValueError:
        return None
    return None


def read_year(value: object) -> datetime | None:
    """Return the first day of a year that is written as a number; other cells are read by `read_time`."""
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    return datetime.combine(date(int(str(value).partition(".")[0]), 1, 1), time()) if is_whole else read_time(value)


def find_grain(times: Sequence[datetime], name_words: Sequence[str] = ()) -> Grain:
    """Return the longest period such that all times are at the start of one.

    A period in the column's name is preferred.
    """
    if any((moment.hour, moment.minute, moment.second) != (0, 0, 0) for moment in times):
        return Grain.MINUTE
    fitting = [grain for grain in Grain if _are_starts(times, grain)]
    named_grains = [grain for grain in fitting if str(grain) in name_words]
    # If all times are the same day, such as 1 January 2024, that day is rarely meant as a year or a quarter.
    if not named_grains and len(set(times)) == 1 and Grain.DAY in fitting:
        return Grain.DAY
    without_weeks = [grain for grain in fitting if grain != Grain.WEEK]
    return (named_grains or without_weeks or [Grain.DAY])[0]


def _are_starts(times: Sequence[datetime], grain: Grain) -> bool:
    match grain:
        case Grain.YEAR:
            return all((moment.month, moment.day) == (1, 1) for moment in times)
        case Grain.QUARTER:
            return all(moment.month % 3 == 1 and moment.day == 1 for moment in times)
        case Grain.MONTH:
            return all(moment.day == 1 for moment in times)
        case _:
            return True


def format_time(moment: datetime, grain: Grain) -> str:
    """Return a time as text: "2024", "Q3 2024", "Mar 2024", "5 Mar 2024" or "5 Mar 2024 14:30"."""
    match grain:
        case Grain.YEAR:
            return f"{moment.year}"
        case Grain.QUARTER:
            return f"Q{(moment.month + 2) // 3} {moment.year}"
        case Grain.MONTH:
            return f"{moment:%b} {moment.year}"
        case Grain.MINUTE:
            return f"{moment.day} {moment:%b} {moment.year} {moment:%H:%M}"
        case _:
            return f"{moment.day} {moment:%b} {moment.year}"
