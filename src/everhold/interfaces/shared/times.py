"""Times as users type and read them. Inside the program, every time has a zone."""

import re
from calendar import monthrange
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from everhold import clock
from everhold.errors import InvalidInput
from everhold.text.date_words import NUMBERS
from everhold.text.dates import EARLIEST, find_time_spans
from everhold.text.lazy_pattern import lazy_pattern

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_CALENDAR_UNITS = {"month": 1, "year": 12}  # in months, whose lengths differ
_COUNT = rf"(?:(?P<digits>\d{{1,6}}) ?|(?P<word>{'|'.join(NUMBERS)}) )"
_DURATION = rf"{_COUNT}(?P<unit>[smhdw]|(?:second|minute|hour|day|week|month|year)s?)"
_AHEAD = lazy_pattern(rf"in {_DURATION}")
_FROM_NOW, _AGO = lazy_pattern(rf"{_DURATION} from (?:now|today)"), lazy_pattern(rf"{_DURATION} ago")
_BARE = lazy_pattern(_DURATION)
# Phrases that `find_time_spans` reads as a rough span of time, such as "in a few days". They are refused here.
_INEXACT = lazy_pattern(r".*\b(?:couple|few|several|ago|back|from (?:now|today)|(?:day|week|month|year)s? before)\b.*")
_FORMS = "2025-03-01, 2025-03-01T09:30, 2025-03-01T09:30+07:00, yesterday, '3 days ago' or 'in 3 days'"

Direction = Literal["ago", "ahead"]


def parse_time(
    text: str, zone: ZoneInfo, option: str, *, durations: Direction | None = None, upcoming: bool = False
) -> datetime:
    """Return a moment in UTC: an ISO time, `now`, `3 days ago`, `in a month`, or a phrase such as `yesterday`.

    A date or a phrase means its first instant, and a distance exactly that distance from now. A time without a zone is
    in `zone`. `durations` determines whether a plain duration such as `7d` means a time in the past or in the future;
    without it, a plain duration is refused. With `upcoming`, `friday` is the next Friday instead of the last one.
    """
    phrase = " ".join(text.lower().split())
    try:
        moment = _parse_relative(phrase, zone, durations)
        moment = moment or _parse_absolute(text.strip(), phrase, zone, upcoming=upcoming)
    except OverflowError:
        moment = None
    if moment is None:
        forms = f"{_FORMS}, or 7d, 12h or 2w" if durations else _FORMS
        raise InvalidInput(f"{option} {text!r} is not a time", value=text, remedy=f"write it as {forms}")
    return moment


def parse_expiry(text: str, zone: ZoneInfo, option: str) -> datetime:
    """Return a moment in the future. InvalidInput if the time has passed, because what expires then is lost at once."""
    moment = parse_time(text, zone, option, durations="ahead", upcoming=True)
    if moment <= clock.now():
        raise InvalidInput(
            f"{option} {text!r} is not in the future: it means {format_local(moment, zone)}",
            value=text,
            remedy="write a later time, such as 7d, tomorrow or 'in 2 weeks'",
        )
    return moment


def parse_duration(text: str, option: str) -> timedelta:
    """Return a duration such as `30m`, `1h` or `2 days`."""
    match = _BARE.fullmatch(" ".join(text.lower().split()))
    # A month or a year has no fixed length, so it is refused.
    duration = timedelta(0) if match is None or _count_months(match) else _read_duration(match)
    if not duration:
        raise InvalidInput(f"{option} {text!r} is not a duration", value=text, remedy="write it as 30m, 1h or 2d")
    return duration


def _parse_relative(phrase: str, zone: ZoneInfo, durations: Direction | None) -> datetime | None:
    if phrase == "now":
        return clock.now()
    bare = _BARE.fullmatch(phrase) if durations else None
    if ahead := _AHEAD.fullmatch(phrase) or _FROM_NOW.fullmatch(phrase) or (durations == "ahead" and bare):
        return _shift_now(ahead, zone, 1)
    if ago := _AGO.fullmatch(phrase) or bare:
        return _shift_now(ago, zone, -1)
    return None


def _parse_absolute(text: str, phrase: str, zone: ZoneInfo, *, upcoming: bool) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if _INEXACT.fullmatch(phrase):
            return None
        sentence = f"due {phrase}" if upcoming else phrase  # a sentence about the future
        starts = [span.start for span in find_time_spans(sentence, clock.now(), zone) if span.matched == phrase]
        return starts[0] if starts and starts[0] != EARLIEST else None
    return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).astimezone(UTC)


def _read_count(match: re.Match[str]) -> int:
    return int(match["digits"]) if match["digits"] else NUMBERS[match["word"]]


def _read_duration(match: re.Match[str]) -> timedelta:
    return timedelta(**{_UNITS[match["unit"][0]]: _read_count(match)})


def _count_months(match: re.Match[str]) -> int:
    return _read_count(match) * _CALENDAR_UNITS.get(match["unit"].removesuffix("s"), 0)


def _shift_now(match: re.Match[str], zone: ZoneInfo, sign: int) -> datetime:
    """Return the moment at a distance from now. A month later is the same day of the next month, or its last day."""
    if match["unit"].removesuffix("s") not in _CALENDAR_UNITS:
        return clock.now() + sign * _read_duration(match)
    local = clock.now().astimezone(zone)
    year, month = divmod(local.year * 12 + local.month - 1 + sign * _count_months(match), 12)
    if not MINYEAR <= year <= MAXYEAR:
        raise OverflowError
    day = min(local.day, monthrange(year, month + 1)[1])
    return local.replace(year=year, month=month + 1, day=day).astimezone(UTC)


def format_local(moment: datetime, zone: ZoneInfo) -> str:
    """Return a moment to the minute, for a table."""
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def format_local_with_zone(moment: datetime, zone: ZoneInfo) -> str:
    """Return a moment to the second, with the name of the zone."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone.key}"
