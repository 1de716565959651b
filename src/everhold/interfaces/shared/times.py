"""Times as users type and read them. Inside the program, every time has a zone."""

import re
from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from everhold import clock
from everhold.errors import InvalidInput
from everhold.text.dates import find_time_spans
from everhold.text.lazy_pattern import lazy_pattern

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = r"(\d{1,6}) ?(s|m|h|d|w|(?:second|minute|hour|day|week)s?)"
_AHEAD, _AGO = lazy_pattern(f"in {_DURATION}"), lazy_pattern(f"{_DURATION} ago")
_BARE = lazy_pattern(_DURATION)
_FORMS = "2025-03-01, 2025-03-01T09:30, 2025-03-01T09:30+07:00, yesterday, '3 days ago' or 'in 3 days'"

Direction = Literal["ago", "ahead"]


def parse_time(text: str, zone: ZoneInfo, option: str, *, durations: Direction | None = None) -> datetime:
    """Return a moment in UTC: an ISO time, `now`, `3 days ago`, `in 12h`, or a phrase such as `yesterday`.

    A date or a phrase means its first instant. A time without a zone is in `zone`. `durations` determines whether a
    plain duration such as `7d` means a time in the past or in the future; without it, a plain duration is refused.
    """
    written = " ".join(text.lower().split())
    try:
        moment = _parse_relative(written, durations) or _parse_absolute(text.strip(), written, zone)
    except OverflowError:
        moment = None
    if moment is None:
        forms = f"{_FORMS}, or 7d, 12h or 2w" if durations else _FORMS
        raise InvalidInput(f"{option} {text!r} is not a time", value=text, remedy=f"write it as {forms}")
    return moment


def parse_duration(text: str, option: str) -> timedelta:
    """Return a duration such as `30m`, `1h` or `2 days`."""
    match = _BARE.fullmatch(" ".join(text.lower().split()))
    duration = timedelta(0) if match is None else _read_duration(match)
    if not duration:
        raise InvalidInput(f"{option} {text!r} is not a duration", value=text, remedy="write it as 30m, 1h or 2d")
    return duration


def _parse_relative(written: str, durations: Direction | None) -> datetime | None:
    if written == "now":
        return clock.now()
    if ahead := _AHEAD.fullmatch(written) or (durations == "ahead" and _BARE.fullmatch(written)):
        return clock.now() + _read_duration(ahead)
    if ago := _AGO.fullmatch(written) or (durations == "ago" and _BARE.fullmatch(written)):
        return clock.now() - _read_duration(ago)
    return None


def _parse_absolute(text: str, written: str, zone: ZoneInfo) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return next(
            (span.start for span in find_time_spans(written, clock.now(), zone) if span.matched == written), None
        )
    return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).astimezone(UTC)


def _read_duration(match: re.Match[str]) -> timedelta:
    return timedelta(**{_UNITS[match[2][0]]: int(match[1])})


def format_local(moment: datetime, zone: ZoneInfo) -> str:
    """Return a moment to the minute, for a table."""
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def format_local_with_zone(moment: datetime, zone: ZoneInfo) -> str:
    """Return a moment to the second, with the name of the zone."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone.key}"
