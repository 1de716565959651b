"""The forms of a time in English, each with what it means on a given day.

A form is a pattern over text in lower case and a function from its parts to an interval. All patterns are joined into
one, so that a text is read once.
"""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from everhold.text.date_words import (
    COUNTED,
    DAYPARTS,
    DECORATION,
    HOLIDAYS,
    MONTHS,
    NUMBERS,
    SEASONS,
    SURE_MONTHS,
    UNIT_DAYS,
    UNIT_HOURS,
    VAGUE,
    VERB_MONTHS,
    WEEKDAYS,
    fourth_thursday,
)
from everhold.text.lazy_pattern import lazy_pattern


class Interval(NamedTuple):
    """From `low` up to before `high`: local wall times without a zone, or moments in UTC."""

    low: datetime
    high: datetime
    yearless: bool = False
    """The year was not said."""


class Found(NamedTuple):
    """A form found in a text."""

    parts: dict[str, str]
    said: str
    """As written, without what leads to it."""
    lead: str
    follow: str
    """The word after it."""
    joined: bool
    """It continues the time before it: between May *and July*."""
    future: bool
    """The sentence speaks of what is to come."""
    now: datetime
    """Local wall time."""
    moment: datetime
    """The same in UTC."""

    @property
    def today(self) -> date:
        return self.now.date()


Resolve = Callable[[Found], Interval | None]


def days(low: date, high: date, *, yearless: bool = False) -> Interval:
    return Interval(datetime.combine(low, time()), datetime.combine(high, time()), yearless)


def one_day(day: date, part: str = "", *, yearless: bool = False) -> Interval:
    if not part:
        return days(day, day + timedelta(days=1), yearless=yearless)
    midnight = datetime.combine(day, time())
    first, last = DAYPARTS[part]
    return Interval(midnight + timedelta(hours=first), midnight + timedelta(hours=last), yearless)


def month_after(day: date, months: int = 1) -> date:
    """The first of the month so many months from that of a day."""
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def third(interval: Interval, part: str) -> Interval:
    """The early, middle or late third."""
    if not part:
        return interval
    step = (interval.high - interval.low).days // 3
    low, high = {
        "early": (interval.low, interval.low + timedelta(days=step)),
        "mid": (interval.low + timedelta(days=step), interval.low + timedelta(days=2 * step)),
        "late": (interval.low + timedelta(days=2 * step), interval.high),
    }[part]
    return Interval(low, high, interval.yearless)


def _part(words: str) -> str:
    if words.startswith(("early", "start", "begin")):
        return "early"
    return "mid" if words.startswith("mid") else "late" if words else ""


def _day(year: int, month: int, number: int) -> date | None:
    if not (1 <= month <= 12 and 1 <= number <= 31):
        return None
    last = (month_after(date(year, month, 1)) - timedelta(days=1)).day
    return date(year, month, number) if number <= last else None


def quantity(words: str) -> tuple[int, int]:
    """How many: least and most."""
    for word, bounds in VAGUE.items():
        if word in words:
            return bounds
    number = int(words) if words.isdigit() else NUMBERS[words]
    return number, number


def around(words: str, unit: str) -> tuple[int, int]:
    """Days in so many units: least and most. Half a unit either way, as people count."""
    low, high = quantity(words)
    length = UNIT_DAYS[unit]
    slack = 0 if unit == "day" or low != high else length // 2
    return low * length - slack, high * length + slack


def _iso(found: Found) -> Interval | None:
    day = _day(int(found.parts["year"]), int(found.parts["month"]), int(found.parts["day"]))
    return one_day(day) if day else None


def _slashed(found: Found) -> Interval | None:
    first, second, year = (int(found.parts[name]) for name in ("first", "second", "year"))
    if first <= 12 and second <= 12 and first != second:
        return None
    day = _day(year, min(first, second), max(first, second))
    return one_day(day) if day else None


def _month_day(found: Found) -> Interval | None:
    month, number = found.parts["month"], int(found.parts["day"])
    if found.said.islower() and month in VERB_MONTHS and not (found.parts["year"] or found.parts["nth"]):
        return None
    if found.parts["year"]:
        day = _day(int(found.parts["year"]), MONTHS[month], number)
        return one_day(day) if day else None
    return _nearest_year(found, lambda year: _day(year, MONTHS[month], number))


def _nearest_year(found: Found, on: Callable[[int], date | None]) -> Interval | None:
    """The last such day that is not to come, or the next one if the sentence speaks of what is to come."""
    years = range(found.today.year, found.today.year + 9) if found.future else range(found.today.year, 1900, -1)
    for year in years:
        day = on(year)
        if day and (day >= found.today if found.future else day <= found.today):
            return one_day(day, yearless=True)
    return None


def _month(found: Found) -> Interval | None:
    name, which, said_year = found.parts["month"], found.parts["which"], found.parts["year"]
    if not (said_year or which or found.parts["part"] or _may_stand(found, name)):
        return None
    month, part = MONTHS[name], _part(found.parts["part"])
    if said_year:
        first = date(int(said_year), month, 1)
    else:
        year = found.today.year
        current = found.today.month
        if which.startswith(("last", "this past")):
            year -= month >= current
        elif which.startswith(("next", "this coming")):
            year += month <= current
        elif not which:
            year += (month < current) if found.future else -(month > current)
        first = date(year, month, 1)
    return third(days(first, month_after(first), yearless=not said_year), part)


def _may_stand(found: Found, name: str) -> bool:
    """Whether a month's name alone is that month and not a verb or somebody's name."""
    capital = found.said[:1].isupper()
    if found.joined or found.lead in (
        "in",
        "since",
        "until",
        "till",
        "during",
        "between",
        "by",
        "throughout",
        "back in",
    ):
        return len(name) > 3 or name == "may" or capital
    if found.lead in ("before", "after", "from"):
        return capital and (name in SURE_MONTHS or not found.follow or not found.follow.isalpha())
    return capital and name in SURE_MONTHS


def _ago(found: Found) -> Interval | None:
    count, unit = found.parts["count"], found.parts["unit"].rstrip("s")
    sign = -1 if "ago" in found.parts["side"] or "back" in found.parts["side"] else 1
    return _shifted(found, count, unit, sign)


def _in_future(found: Found) -> Interval | None:
    return _shifted(found, found.parts["count"], found.parts["unit"].rstrip("s"), 1)


def _shifted(found: Found, count: str, unit: str, sign: int) -> Interval:
    if unit in UNIT_HOURS:
        low, high = quantity(count)
        ends = sorted(sign * UNIT_HOURS[unit] * amount for amount in (low - 0.5, high + 0.5))
        return Interval(found.moment + timedelta(hours=ends[0]), found.moment + timedelta(hours=ends[1]))
    least, most = sorted(sign * amount for amount in around(count, unit))
    return days(found.today + timedelta(days=least), found.today + timedelta(days=most + 1))


def _past_stretch(found: Found) -> Interval | None:
    unit = found.parts["unit"].rstrip("s")
    most = quantity(found.parts["count"])[1]
    if unit in UNIT_HOURS:
        return Interval(found.moment - timedelta(hours=most * UNIT_HOURS[unit]), found.moment)
    start = datetime.combine(found.today - timedelta(days=most * UNIT_DAYS[unit]), time())
    return Interval(start, found.now)


def _step(which: str) -> int:
    return -1 if which.startswith(("last", "this past", "previous")) else 1 if "next" in which else 0


def _relative(found: Found) -> Interval | None:
    which, unit = found.parts["which"], found.parts["unit"]
    step, today = _step(which), found.today
    if unit in DAYPARTS:
        if step > 0 or (unit != "night" and step):
            return None
        return one_day(today + timedelta(days=step), unit)
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
    if unit == "week":
        return days(monday, monday + timedelta(weeks=1))
    if unit == "weekend":
        return days(monday + timedelta(days=5), monday + timedelta(days=7))
    if unit == "month":
        return days(month_after(today, step), month_after(today, step + 1))
    return days(date(today.year + step, 1, 1), date(today.year + step + 1, 1, 1))


def _weekday(found: Found) -> Interval | None:
    name, which = found.parts["weekday"], found.parts["which"]
    if len(name) <= 5 and not (found.said[-len(name) :][:1].isupper() and (which or found.lead == "on")):
        return None
    if found.follow in ("before", "after") and not which:
        return None
    part = found.parts["part"]
    ahead = (WEEKDAYS[name] - found.today.weekday()) % 7
    behind = (found.today.weekday() - WEEKDAYS[name]) % 7
    if which.startswith(("last", "this past", "previous")):
        offset = -(behind or 7)
    elif which == "next":
        offset = 7 - found.today.weekday() + WEEKDAYS[name]
    elif which == "this coming":
        offset = ahead or 7
    elif which == "this":
        offset = WEEKDAYS[name] - found.today.weekday()
    else:
        offset = (ahead or 7) if found.future else -behind
    return one_day(found.today + timedelta(days=offset), part)


def _named_day(found: Found) -> Interval | None:
    words, part = found.parts["name"], found.parts["part"]
    if words == "tonight":
        return one_day(found.today, "night")
    offsets = {"today": 0, "yesterday": -1, "tomorrow": 1, "before yesterday": -2, "after tomorrow": 2}
    return one_day(found.today + timedelta(days=offsets[words.removeprefix("the ").removeprefix("day ")]), part)


def _season(found: Found) -> Interval | None:
    name, which, year = found.parts["season"], found.parts["which"], found.parts["year"]
    leads = ("in", "during", "since", "in the", "during the", "over the", "before", "after", "until", "by")
    if not (year or which or found.lead in leads):
        return None
    month = SEASONS[name]
    part = _part(found.parts["part"])
    starts = [date(each, month, 1) for each in range(found.today.year - 2, found.today.year + 2)]
    if year:
        first = date(int(year), month, 1)
    elif which.startswith(("last", "this past", "previous")):
        first = max(start for start in starts if month_after(start, 3) <= found.today)
    elif which.startswith("next") or (found.future and not which):
        first = min(start for start in starts if start > found.today)
    elif which:
        first = date(found.today.year, month, 1)
    else:
        first = max(start for start in starts if start <= found.today)
    return third(days(first, month_after(first, 3), yearless=not year), part)


def _holiday(found: Found) -> Interval | None:
    if found.follow in DECORATION:
        return None
    month, number = HOLIDAYS[found.parts["holiday"].replace("’", "'")]
    which = found.parts["which"]

    def on(year: int) -> date:
        return date(year, month, number) if number else fourth_thursday(year)

    if found.parts["year"]:
        return one_day(on(int(found.parts["year"])))
    if which.startswith("this") and which != "this past":
        return one_day(on(found.today.year))
    return _nearest_year(found._replace(future=found.future or which == "next"), on)


def _year(found: Found) -> Interval | None:
    if found.follow in COUNTED or not (found.lead or found.parts["part"] or found.joined):
        return None
    year = int(found.parts["year"])
    return third(days(date(year, 1, 1), date(year + 1, 1, 1)), _part(found.parts["part"]))


_YEAR = r"(?P<year>(?:19|20)\d\d)(?![\d%]|[.:/-]\d)"
_OF_YEAR = rf"(?:,? (?:of |in )?{_YEAR})?"
_MONTH = rf"(?P<month>{'|'.join(MONTHS)})\b(?:\.(?= \d))?"
_COUNT = (
    rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))}"
    r"|(?:a )?couple(?: of)?|(?:a )?few|several)"
)
_UNIT = r"(?P<unit>(?:minute|hour|day|week|month|year)s?)\b"
_WHICH = r"(?P<which>last|this past|this coming|this|next|previous) "
_PART = r"(?P<part>early|mid|late|(?:the )?(?:start|beginning|middle|end) of)(?:[ -]| in )(?:the )?"
_DAYPART = rf"(?: (?P<part>{'|'.join(DAYPARTS)}))?"
_WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})\b"
_HOLIDAY = "|".join(HOLIDAYS).replace("'", "[’']")
_NUMBER = r"(?P<day>\d{1,2})(?P<nth>st|nd|rd|th)?"

FORMS: dict[str, tuple[str, Resolve]] = {
    "iso": (r"(?P<year>(?:19|20)\d\d)[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)", _iso),
    "slashed": (r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>(?:19|20)\d\d)(?!\d)", _slashed),
    "ago": (rf"{_COUNT} {_UNIT} (?P<side>ago|back\b|from (?:now|today))", _ago),
    "day_month": (rf"(?:the )?{_NUMBER}(?: of)? {_MONTH}{_OF_YEAR}", _month_day),
    "month_day": (rf"{_MONTH} (?:the )?{_NUMBER}(?![\d:%]|[.,]\d){_OF_YEAR}", _month_day),
    "month": (rf"(?:{_PART})?(?:{_WHICH})?{_MONTH}{_OF_YEAR}", _month),
    "in_future": (rf"in {_COUNT} {_UNIT}", _in_future),
    "past_stretch": (rf"(?:the )?(?:last|past|previous) {_COUNT} {_UNIT}", _past_stretch),
    "relative": (rf"(?:the )?{_WHICH}(?P<unit>weekend|week|month|year|morning|afternoon|evening|night)\b", _relative),
    "named_day": (
        rf"(?P<name>(?:the )?day (?:before yesterday|after tomorrow)|yesterday|today|tomorrow|tonight)\b{_DAYPART}",
        _named_day,
    ),
    "weekday": (rf"(?:{_WHICH})?{_WEEKDAY}{_DAYPART}", _weekday),
    "season": (rf"(?:{_PART})?(?:{_WHICH})?(?P<season>{'|'.join(SEASONS)})\b{_OF_YEAR}", _season),
    "holiday": (
        rf"(?:(?P<which>last|this past|this|next) )?(?P<holiday>{_HOLIDAY})\b(?: day)?{_OF_YEAR}",
        _holiday,
    ),
    "year": (rf"(?:{_PART})?{_YEAR}", _year),
}

LEADS = (
    rf"(?:(?:the|that) )?(?:week|weekend|day|night|evening|morning|afternoon|month|year|{'|'.join(WEEKDAYS)}"
    rf"|{_COUNT} (?:day|week|month|year)s?) (?:of|before|after|following|prior to)"
    r"|(?:back )?in(?: the)?|on|since|before|after|until|till|by|during(?: the)?|from|between|over the|around|of"
    r"|throughout|as of|within"
)


def _unnamed(pattern: str) -> str:
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)


PATTERNS = {name: lazy_pattern(pattern) for name, (pattern, _) in FORMS.items()}
ANY_FORM = lazy_pattern(
    rf"\b(?<![\w.$€£#/-])(?:(?P<lead>{_unnamed(LEADS)}) )?(?:"
    + "|".join(f"(?P<{name}>{_unnamed(pattern)})" for name, (pattern, _) in FORMS.items())
    + r")(?![\w/-]\w|\w)"
)
OFFSET = lazy_pattern(rf"{_COUNT} (?P<unit>day|week|month|year)s? ")
