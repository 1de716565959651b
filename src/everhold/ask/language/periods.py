"""Read periods as half-open intervals of dates: "last quarter", "in May 2014", "since 2020", "Q3 2023"."""

import re
from dataclasses import dataclass
from datetime import date, timedelta

_MONTH_WORDS = "january february march april may june july august september october november december"
_MONTHS = _MONTH_WORDS.split()
_MONTH_NAMES = {name: number for number, name in enumerate(_MONTHS, 1)} | {
    name[:3]: number for number, name in enumerate(_MONTHS, 1)
}
_MONTH = "|".join(sorted(_MONTH_NAMES, key=len, reverse=True))
_UNIT = "day|week|month|quarter|year"
_YEAR = r"(?:1[89]|20)\d\d"
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}


@dataclass(frozen=True)
class TimeInterval:
    """The days from `start` up to, but not including, `end`. `year` is set if only a year was written."""

    start: date
    end: date
    year: int | None = None

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise ValueError(f"an interval must not be empty: {self.start} to {self.end}")


@dataclass(frozen=True)
class PeriodPhrase:
    """A period, and the number of characters of its text."""

    interval: TimeInterval
    length: int


def read_period(text: str, today: date) -> PeriodPhrase | None:
    """Return the period at the beginning of a text in lower case. Relative periods are counted from `today`."""
    for pattern, build in _FORMS:
        match = pattern.match(text)
        if match:
            interval = build(match, today)
            if interval:
                return PeriodPhrase(interval, match.end())
    return None


def _add_months(day: date, months: int) -> date:
    total = day.year * 12 + day.month - 1 + months
    return date(total // 12, total % 12 + 1, 1)


def find_unit(day: date, unit: str, offset: int = 0) -> TimeInterval:
    """Return the day, week, month, quarter or year that contains a day, or the one that is `offset` units later."""
    if unit == "day":
        start = day + timedelta(days=offset)
        return TimeInterval(start, start + timedelta(days=1))
    if unit == "week":
        start = day - timedelta(days=day.weekday()) + timedelta(weeks=offset)
        return TimeInterval(start, start + timedelta(weeks=1))
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    first = date(day.year, (day.month - 1) // months * months + 1, 1)
    start = _add_months(first, months * offset)
    return TimeInterval(start, _add_months(start, months))


def _build_day(match: re.Match[str], _: date) -> TimeInterval | None:
    try:
        day = date(int(match["year"]), int(match["month"]), int(match["day"]))
    except ValueError:
        return None
    return TimeInterval(day, day + timedelta(days=1))


def _build_named_day(match: re.Match[str], _: date) -> TimeInterval | None:
    try:
        day = date(int(match["year"]), _MONTH_NAMES[match["month"]], int(match["day"]))
    except ValueError:
        return None
    return TimeInterval(day, day + timedelta(days=1))


def _build_month(match: re.Match[str], _: date) -> TimeInterval:
    return find_unit(date(int(match["year"]), _MONTH_NAMES[match["month"]], 1), "month")


def _build_quarter(match: re.Match[str], today: date) -> TimeInterval:
    year = int(match["year"] or today.year)
    return find_unit(date(year, 3 * int(match["quarter"]) - 2, 1), "quarter")


def _build_part(match: re.Match[str], today: date) -> TimeInterval:
    """Return a part of a year: "the last quarter of 2025", "the first half of 2024", "H1 2025"."""
    months = 3 if match["unit"] == "quarter" else 6
    count = 12 // months
    number = count if match["which"] == "last" else min(_ORDINALS[match["which"]], count)
    start = date(int(match["year"] or today.year), months * (number - 1) + 1, 1)
    return TimeInterval(start, _add_months(start, months))


def _build_half(match: re.Match[str], today: date) -> TimeInterval:
    start = date(int(match["year"] or today.year), 6 * int(match["half"]) - 5, 1)
    return TimeInterval(start, _add_months(start, 6))


def _build_bare_month(match: re.Match[str], today: date) -> TimeInterval:
    """Return the latest month of this name that has begun: "in March" means March of this year or of last year."""
    month = _MONTH_NAMES[match["month"]]
    return find_unit(date(today.year - (month > today.month), month, 1), "month")


def _build_relative(match: re.Match[str], today: date) -> TimeInterval:
    offset = {"this": 0, "current": 0, "next": 1}.get(match["which"], -1)
    return find_unit(today, match["unit"], offset)


def _build_last_units(match: re.Match[str], today: date) -> TimeInterval:
    """Return the last units before the present one: "the last 3 months" end with last month, "7 days" with
    yesterday."""
    count = int(match["count"])
    first, last = find_unit(today, match["unit"], -count), find_unit(today, match["unit"], -1)
    return TimeInterval(first.start, last.end)


def _build_to_date(match: re.Match[str], today: date) -> TimeInterval:
    unit = {"ytd": "year", "qtd": "quarter", "mtd": "month"}.get(match["short"] or "") or str(match["unit"])
    return TimeInterval(find_unit(today, unit).start, today + timedelta(days=1))


def _build_named(match: re.Match[str], today: date) -> TimeInterval:
    return find_unit(today, "day", -1 if match["name"] == "yesterday" else 0)


_FORMS = (
    (re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})\b"), _build_day),
    (re.compile(rf"(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>{_YEAR})\b"), _build_named_day),
    (
        re.compile(rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month>{_MONTH})\.? (?P<year>{_YEAR})\b"),
        _build_named_day,
    ),
    (re.compile(rf"(?P<month>{_MONTH})\.?,? (?:of )?(?P<year>{_YEAR})\b"), _build_month),
    (re.compile(rf"q(?P<quarter>[1-4])(?:[ /-](?:of )?(?P<year>{_YEAR}))?\b"), _build_quarter),
    (
        re.compile(
            rf"(?P<which>{'|'.join(_ORDINALS)}|last) (?P<unit>quarter|half) (?:of|in) (?P<year>{_YEAR})\b"
        ),
        _build_part,
    ),
    (re.compile(rf"h(?P<half>[12])(?:[ /-](?:of )?(?P<year>{_YEAR}))?\b"), _build_half),
    (re.compile(rf"(?P<which>last|previous|past|this|current|next) (?P<unit>{_UNIT})\b"), _build_relative),
    (re.compile(rf"(?:last|previous|past) (?P<count>\d{{1,3}}) (?P<unit>{_UNIT})s\b"), _build_last_units),
    (re.compile(rf"(?:(?P<short>ytd|qtd|mtd)|(?P<unit>{_UNIT}) to date)\b"), _build_to_date),
    (re.compile(r"(?P<name>today|yesterday)\b"), _build_named),
    (re.compile(rf"(?:in|during|for) (?P<month>{'|'.join(_MONTHS)})\b(?! \d)"), _build_bare_month),
)  # fmt: skip
