"""The forms of English time expressions, each with a function that resolves it.

A form is a pattern for lower-case text and a function from the match to an interval. All patterns are joined into
one, so that a text is searched once.
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
    find_thanksgiving,
)
from everhold.text.lazy_pattern import lazy_pattern


class Interval(NamedTuple):
    """A half-open interval from `low` to `high`: both are local times without a zone, or both are in UTC."""

    low: datetime
    high: datetime
    yearless: bool = False
    """Whether the expression has no year."""


class TimeMatch(NamedTuple):
    """One time expression in a text, with what its resolution depends on."""

    parts: dict[str, str]
    """The named groups of the form's pattern."""
    text: str
    """The expression as written, without `lead`."""
    lead: str
    """The preposition before the expression: "since", "the week before"."""
    follow: str
    """The word after the expression."""
    is_continued: bool
    """Whether the expression is the end of a range, like "July" in "between May and July"."""
    is_future: bool
    """Whether the sentence is about the future."""
    now: datetime
    """The current local time, without a zone."""
    moment: datetime
    """The current time in UTC."""

    @property
    def today(self) -> date:
        return self.now.date()


Resolve = Callable[[TimeMatch], Interval | None]


def make_interval(low: date, high: date, *, yearless: bool = False) -> Interval:
    """Return the interval from the beginning of `low` to the beginning of `high`."""
    return Interval(datetime.combine(low, time()), datetime.combine(high, time()), yearless)


def make_day(day: date, part: str = "", *, yearless: bool = False) -> Interval:
    """Return the interval of a day, or of a part of the day such as "morning"."""
    if not part:
        return make_interval(day, day + timedelta(days=1), yearless=yearless)
    midnight = datetime.combine(day, time())
    first, last = DAYPARTS[part]
    return Interval(midnight + timedelta(hours=first), midnight + timedelta(hours=last), yearless)


def shift_month(day: date, months: int = 1) -> date:
    """Return the first day of the month that is `months` after the month of a day."""
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def take_third(interval: Interval, part: str) -> Interval:
    """Return the early, middle or late third of an interval, or all of it if `part` is empty."""
    if not part:
        return interval
    step = (interval.high - interval.low).days // 3
    low, high = {
        "early": (interval.low, interval.low + timedelta(days=step)),
        "mid": (interval.low + timedelta(days=step), interval.low + timedelta(days=2 * step)),
        "late": (interval.low + timedelta(days=2 * step), interval.high),
    }[part]
    return Interval(low, high, interval.yearless)


def _read_part(words: str) -> str:
    if words.startswith(("early", "start", "begin")):
        return "early"
    return "mid" if words.startswith("mid") else "late" if words else ""


def _make_date(year: int, month: int, number: int) -> date | None:
    if not (1 <= month <= 12 and 1 <= number <= 31):
        return None
    last = (shift_month(date(year, month, 1)) - timedelta(days=1)).day
    return date(year, month, number) if number <= last else None


def parse_quantity(words: str) -> tuple[int, int]:
    """Return the lowest and the highest number that a quantity can mean: (2, 6) for "a few"."""
    for word, bounds in VAGUE.items():
        if word in words:
            return bounds
    number = int(words) if words.isdigit() else NUMBERS[words]
    return number, number


def estimate_days(words: str, unit: str) -> tuple[int, int]:
    """Return the lowest and the highest number of days that a quantity of units can mean.

    People round, so half a unit is allowed on both sides: "two weeks" is 11 to 17 days.
    """
    low, high = parse_quantity(words)
    length = UNIT_DAYS[unit]
    slack = 0 if unit == "day" or low != high else length // 2
    return low * length - slack, high * length + slack


def _resolve_iso(match: TimeMatch) -> Interval | None:
    day = _make_date(int(match.parts["year"]), int(match.parts["month"]), int(match.parts["day"]))
    return make_day(day) if day else None


def _resolve_slashed(match: TimeMatch) -> Interval | None:
    first, second, year = (int(match.parts[name]) for name in ("first", "second", "year"))
    if first <= 12 and second <= 12 and first != second:
        return None
    day = _make_date(year, min(first, second), max(first, second))
    return make_day(day) if day else None


def _resolve_month_day(match: TimeMatch) -> Interval | None:
    month, number = match.parts["month"], int(match.parts["day"])
    if match.text.islower() and month in VERB_MONTHS and not (match.parts["year"] or match.parts["nth"]):
        return None
    if match.parts["year"]:
        day = _make_date(int(match.parts["year"]), MONTHS[month], number)
        return make_day(day) if day else None
    return _choose_year(match, lambda year: _make_date(year, MONTHS[month], number))


def _choose_year(match: TimeMatch, make_day_in: Callable[[int], date | None]) -> Interval | None:
    """Return the last day that is not in the future, or the next one if the sentence is about the future.

    `make_day_in` returns the day in a year, or None if the year has no such day.
    """
    years = range(match.today.year, match.today.year + 9) if match.is_future else range(match.today.year, 1900, -1)
    for year in years:
        day = make_day_in(year)
        if day and (day >= match.today if match.is_future else day <= match.today):
            return make_day(day, yearless=True)
    return None


def _resolve_month(match: TimeMatch) -> Interval | None:
    """Return the time that the name of a month means; None if the word is probably not a month."""
    name, which, said_year = match.parts["month"], match.parts["which"], match.parts["year"]
    if not (said_year or which or match.parts["part"] or _is_month_name(match, name)):
        return None
    month, part = MONTHS[name], _read_part(match.parts["part"])
    if said_year:
        first = date(int(said_year), month, 1)
    else:
        year = match.today.year
        current = match.today.month
        if which.startswith(("last", "this past")):
            year -= month >= current
        elif which.startswith(("next", "this coming")):
            year += month <= current
        elif not which:
            year += (month < current) if match.is_future else -(month > current)
        first = date(year, month, 1)
    return take_third(make_interval(first, shift_month(first), yearless=not said_year), part)


def _is_month_name(match: TimeMatch, name: str) -> bool:
    """Return whether the name of a month without a year or day means the month, not a verb or a first name."""
    capital = match.text[:1].isupper()
    if match.is_continued or match.lead in (
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
    if match.lead in ("before", "after", "from"):
        return capital and (name in SURE_MONTHS or not match.follow or not match.follow.isalpha())
    return capital and name in SURE_MONTHS


def _resolve_ago(match: TimeMatch) -> Interval | None:
    count, unit = match.parts["count"], match.parts["unit"].rstrip("s")
    sign = -1 if "ago" in match.parts["side"] or "back" in match.parts["side"] else 1
    return _shift_now(match, count, unit, sign)


def _resolve_in_future(match: TimeMatch) -> Interval | None:
    return _shift_now(match, match.parts["count"], match.parts["unit"].rstrip("s"), 1)


def _shift_now(match: TimeMatch, count: str, unit: str, sign: int) -> Interval:
    if unit in UNIT_HOURS:
        low, high = parse_quantity(count)
        ends = sorted(sign * UNIT_HOURS[unit] * amount for amount in (low - 0.5, high + 0.5))
        return Interval(match.moment + timedelta(hours=ends[0]), match.moment + timedelta(hours=ends[1]))
    least, most = sorted(sign * amount for amount in estimate_days(count, unit))
    return make_interval(match.today + timedelta(days=least), match.today + timedelta(days=most + 1))


def _resolve_past_stretch(match: TimeMatch) -> Interval | None:
    unit = match.parts["unit"].rstrip("s")
    most = parse_quantity(match.parts["count"])[1]
    if unit in UNIT_HOURS:
        return Interval(match.moment - timedelta(hours=most * UNIT_HOURS[unit]), match.moment)
    start = datetime.combine(match.today - timedelta(days=most * UNIT_DAYS[unit]), time())
    return Interval(start, match.now)


def _read_step(which: str) -> int:
    return -1 if which.startswith(("last", "this past", "previous")) else 1 if "next" in which else 0


def _resolve_relative(match: TimeMatch) -> Interval | None:
    which, unit = match.parts["which"], match.parts["unit"]
    step, today = _read_step(which), match.today
    if unit in DAYPARTS:
        if step > 0 or (unit != "night" and step):
            return None
        return make_day(today + timedelta(days=step), unit)
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
    if unit == "week":
        return make_interval(monday, monday + timedelta(weeks=1))
    if unit == "weekend":
        return make_interval(monday + timedelta(days=5), monday + timedelta(days=7))
    if unit == "month":
        return make_interval(shift_month(today, step), shift_month(today, step + 1))
    return make_interval(date(today.year + step, 1, 1), date(today.year + step + 1, 1, 1))


def _resolve_weekday(match: TimeMatch) -> Interval | None:
    """Return the day that a weekday such as "last Friday" means; None if the word is probably not a weekday."""
    name, which = match.parts["weekday"], match.parts["which"]
    if len(name) <= 5 and not (match.text[-len(name) :][:1].isupper() and (which or match.lead == "on")):
        return None
    if match.follow in ("before", "after") and not which:
        return None
    part = match.parts["part"]
    ahead = (WEEKDAYS[name] - match.today.weekday()) % 7
    behind = (match.today.weekday() - WEEKDAYS[name]) % 7
    if which.startswith(("last", "this past", "previous")):
        offset = -(behind or 7)
    elif which == "next":
        offset = 7 - match.today.weekday() + WEEKDAYS[name]
    elif which == "this coming":
        offset = ahead or 7
    elif which == "this":
        offset = WEEKDAYS[name] - match.today.weekday()
    else:
        offset = (ahead or 7) if match.is_future else -behind
    return make_day(match.today + timedelta(days=offset), part)


def _resolve_named_day(match: TimeMatch) -> Interval | None:
    words, part = match.parts["name"], match.parts["part"]
    if words == "tonight":
        return make_day(match.today, "night")
    offsets = {"today": 0, "yesterday": -1, "tomorrow": 1, "before yesterday": -2, "after tomorrow": 2}
    return make_day(match.today + timedelta(days=offsets[words.removeprefix("the ").removeprefix("day ")]), part)


def _resolve_season(match: TimeMatch) -> Interval | None:
    name, which, year = match.parts["season"], match.parts["which"], match.parts["year"]
    leads = ("in", "during", "since", "in the", "during the", "over the", "before", "after", "until", "by")
    if not (year or which or match.lead in leads):
        return None
    month = SEASONS[name]
    part = _read_part(match.parts["part"])
    starts = [date(number, month, 1) for number in range(match.today.year - 2, match.today.year + 2)]
    if year:
        first = date(int(year), month, 1)
    elif which.startswith(("last", "this past", "previous")):
        first = max(start for start in starts if shift_month(start, 3) <= match.today)
    elif which.startswith("next") or (match.is_future and not which):
        first = min(start for start in starts if start > match.today)
    elif which:
        first = date(match.today.year, month, 1)
    else:
        first = max(start for start in starts if start <= match.today)
    return take_third(make_interval(first, shift_month(first, 3), yearless=not year), part)


def _resolve_holiday(match: TimeMatch) -> Interval | None:
    if match.follow in DECORATION:
        return None
    month, number = HOLIDAYS[match.parts["holiday"].replace("’", "'")]
    which = match.parts["which"]

    def find_day(year: int) -> date:
        return date(year, month, number) if number else find_thanksgiving(year)

    if match.parts["year"]:
        return make_day(find_day(int(match.parts["year"])))
    if which.startswith("this") and which != "this past":
        return make_day(find_day(match.today.year))
    return _choose_year(match._replace(is_future=match.is_future or which == "next"), find_day)


def _resolve_year(match: TimeMatch) -> Interval | None:
    if match.follow in COUNTED or not (match.lead or match.parts["part"] or match.is_continued):
        return None
    year = int(match.parts["year"])
    return take_third(make_interval(date(year, 1, 1), date(year + 1, 1, 1)), _read_part(match.parts["part"]))


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
    "iso": (r"(?P<year>(?:19|20)\d\d)[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)", _resolve_iso),
    "slashed": (r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>(?:19|20)\d\d)(?!\d)", _resolve_slashed),
    "ago": (rf"{_COUNT} {_UNIT} (?P<side>ago|back\b|from (?:now|today))", _resolve_ago),
    "day_month": (rf"(?:the )?{_NUMBER}(?: of)? {_MONTH}{_OF_YEAR}", _resolve_month_day),
    "month_day": (rf"{_MONTH} (?:the )?{_NUMBER}(?![\d:%]|[.,]\d){_OF_YEAR}", _resolve_month_day),
    "month": (rf"(?:{_PART})?(?:{_WHICH})?{_MONTH}{_OF_YEAR}", _resolve_month),
    "in_future": (rf"in {_COUNT} {_UNIT}", _resolve_in_future),
    "past_stretch": (rf"(?:the )?(?:last|past|previous) {_COUNT} {_UNIT}", _resolve_past_stretch),
    "relative": (
        rf"(?:the )?{_WHICH}(?P<unit>weekend|week|month|year|morning|afternoon|evening|night)\b",
        _resolve_relative,
    ),
    "named_day": (
        rf"(?P<name>(?:the )?day (?:before yesterday|after tomorrow)|yesterday|today|tomorrow|tonight)\b{_DAYPART}",
        _resolve_named_day,
    ),
    "weekday": (rf"(?:{_WHICH})?{_WEEKDAY}{_DAYPART}", _resolve_weekday),
    "season": (rf"(?:{_PART})?(?:{_WHICH})?(?P<season>{'|'.join(SEASONS)})\b{_OF_YEAR}", _resolve_season),
    "holiday": (
        rf"(?:(?P<which>last|this past|this|next) )?(?P<holiday>{_HOLIDAY})\b(?: day)?{_OF_YEAR}",
        _resolve_holiday,
    ),
    "year": (rf"(?:{_PART})?{_YEAR}", _resolve_year),
}

LEADS = (
    rf"(?:(?:the|that) )?(?:week|weekend|day|night|evening|morning|afternoon|month|year|{'|'.join(WEEKDAYS)}"
    rf"|{_COUNT} (?:day|week|month|year)s?) (?:of|before|after|following|prior to)"
    r"|(?:back )?in(?: the)?|on|since|before|after|until|till|by|during(?: the)?|from|between|over the|around|of"
    r"|throughout|as of|within"
)


def _strip_group_names(pattern: str) -> str:
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)


PATTERNS = {name: lazy_pattern(pattern) for name, (pattern, _) in FORMS.items()}
ANY_FORM = lazy_pattern(
    rf"\b(?<![\w.$€£#/-])(?:(?P<lead>{_strip_group_names(LEADS)}) )?(?:"
    + "|".join(f"(?P<{name}>{_strip_group_names(pattern)})" for name, (pattern, _) in FORMS.items())
    + r")(?![\w/-]\w|\w)"
)
OFFSET = lazy_pattern(rf"{_COUNT} (?P<unit>day|week|month|year)s? ")
