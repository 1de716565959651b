"""Dates as the programs and the people of many countries write them: 31.12.2023 21:15, Dec 31, 2023, 9:15 PM.

The order of day and month in a date such as 03/04/2024 follows the country. Dots mean that the day is first, a number
above 12 is a day, and for all others the caller must say the order.
"""

import re
import unicodedata
from datetime import datetime, timedelta, timezone
from typing import Literal, NamedTuple

DateOrder = Literal["dmy", "mdy", "ymd"]
DATE_ORDERS: tuple[DateOrder, ...] = ("dmy", "mdy", "ymd")

# Marks of direction are removed. Tabs, blanks that do not break and Arabic commas become plain blanks and commas.
_BLANKS = {**dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c\u2066\u2069\ufeff")), **dict.fromkeys(b"\t", " "),
           **dict.fromkeys(map(ord, "\u202f\xa0\u2009"), " "), ord("،"): ","}  # fmt: skip
# 2023年12月31日, 2023년 12월 31일, and the Bulgarian words for year and hour
_EAST_ASIAN = re.compile(r"(\d{4}) ?[年년] ?(\d{1,2}) ?[月월] ?(\d{1,2}) ?[日일]")
_BULGARIAN = re.compile(r"(?<=\d) ?(?:г|ч)\.")
_PM = {"pm", "下午", "午後", "오후", "م", "μμ"}
HALF = r"[AaPp]\. ?[Mm]\.?|[AaPp][Mm]|[πμ]\.? ?μ\.?|[صم](?!\w)"
# What stands between a date and a time in French, Finnish, Portuguese, Italian, Danish and German.
BEFORE_TIME = r"(?:à|klo|às|ore|kl\.?|um|at|a las)"
HALF_BEFORE = r"[上下]午|午[前後]|오[전후]"
CLOCK = (
    rf"(?:(?P<before>{HALF_BEFORE}) ?)?(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})"
    rf"(?:[:.](?P<second>\d{{2}})(?:[.,](?P<fraction>\d{{1,9}}))?)? ?(?P<half>{HALF})?"
)
_ZONE = r"(?: ?(?P<zone>(?:GMT|UTC)?[+-]\d{2}:?\d{2}|[A-Z]{1,5}(?![a-z])))?"
NUMBERS = r"(?P<first>\d{1,4})(?P<separator>[./-]) ?(?P<second_part>\d{1,2})(?P=separator) ?(?P<third>\d{1,4})"
_LOCAL = re.compile(rf"{NUMBERS}\.?(?:(?:,| |T)+(?:{BEFORE_TIME} )?{CLOCK}{_ZONE})?")
_TIME_FIRST = re.compile(rf"{CLOCK}(?:,| )+{NUMBERS}")
_WORD_CLOCK = re.compile(rf"(?<![\d:]){CLOCK.replace('[:.]', ':', 1)}{_ZONE}(?![\d:])")
_IN_BRACKETS = re.compile(r" ?\([^()]*\)$")
_ZONE_HOURS = {"Z": 0, "UTC": 0, "GMT": 0, "UT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6,
               "PST": -8, "PDT": -7, "WET": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9,
               "KST": 9}  # fmt: skip
_COMPACT = re.compile(r"(?:19|20)\d{12}")
# The beginnings of the names of months in English, German, French, Spanish, Italian, Portuguese and Dutch, without
# accents.
_MONTHS = {
    1: "jan gen ene", 2: "feb fev", 3: "mar maa mrt", 4: "apr avr abr", 5: "may mai mag mei maj", 6: "jun juin giu",
    7: "jul juil lug", 8: "aug aou ago", 9: "sep set", 10: "oct okt ott out", 11: "nov", 12: "dec dez dic",
}  # fmt: skip
_MONTH_OF = {name: number for number, names in _MONTHS.items() for name in names.split()}
_MAX_WORDS = 8
# Years of two digits are of the 1900s from this one on, and of the 2000s before.
_CENTURY, _FIRST_OF_1900S = 100, 70
# A year in this range is one of the Buddhist calendar, as Thai programs write it.
_BUDDHIST, _BUDDHIST_YEARS = 543, range(2500, 2643)


class UnknownOrderError(ValueError):
    """A date may have the day or the month first."""


class DateNumbers(NamedTuple):
    """The three numbers of a date, in their order, and what stands between them."""

    first: int
    second: int
    third: int
    separator: str

    def find_order(self) -> DateOrder | None:
        """Return the order if the date is unambiguous; None if the day or the month may be first."""
        if self.first > 31:
            return "ymd"
        if self.separator == "." or self.first > 12:
            return "dmy"
        return "mdy" if self.second > 12 else None

    def make_day(self, order: DateOrder | None) -> tuple[int, int, int]:
        """Return year, month and day. Raise UnknownOrderError if the order is unknown."""
        # A year of four digits in front decides, whatever order the other dates of a file have.
        date_order = "ymd" if self.first > 31 else order or self.find_order()
        if date_order is None:
            raise UnknownOrderError(f"{self} may have the day or the month first")
        first, second, third, _ = self
        year, month, day = {"dmy": (third, second, first), "mdy": (third, first, second), "ymd": self[:3]}[date_order]
        if year < _CENTURY:
            year += 1900 if year >= _FIRST_OF_1900S else 2000
        return (year - _BUDDHIST if year in _BUDDHIST_YEARS else year), month, day

    def __str__(self) -> str:
        return self.separator.join(map(str, self[:3]))


def clean_text(text: str) -> str:
    """Return a text with plain blanks, with digits of other scripts as 0 to 9, and without invisible marks."""
    text = text.translate(_BLANKS)
    if text.isascii():
        return text
    text = "".join(
        str(unicodedata.digit(character)) if character.isdecimal() and not character.isascii() else character
        for character in text
    )
    return _BULGARIAN.sub("", _EAST_ASIAN.sub(r"\1-\2-\3", text))


def get_numbers(match: re.Match[str]) -> DateNumbers:
    """Return what a pattern with `NUMBERS` has matched."""
    return DateNumbers(int(match["first"]), int(match["second_part"]), int(match["third"]), match["separator"])


def parse_local(text: str, order: DateOrder | None = None) -> tuple[datetime, DateNumbers | None] | None:
    """Return the moment that a date names, without a zone if it names none, and its numbers; None for any other text.

    Raise UnknownOrderError if the day or the month may be first, and ValueError if there is no such day.
    """
    text = clean_text(text).strip()
    if _COMPACT.fullmatch(text):
        return datetime.strptime(text, "%Y%m%d%H%M%S"), None  # noqa: DTZ007 — the caller knows the zone
    match = _LOCAL.fullmatch(text) or _TIME_FIRST.fullmatch(text)
    if match is not None:
        numbers = get_numbers(match)
        return make_moment(numbers.make_day(order), match), numbers
    moment = _parse_words(text)
    return None if moment is None else (moment, None)


def _find_half(text: str | None) -> str:
    """Return "am" or "pm" for the mark of a half day in any of the known languages; "" for none."""
    mark = (text or "").lower().replace(".", "").replace(" ", "")
    if not mark:
        return ""
    return "pm" if mark in _PM else "am"


def _make_hour(hour: int, half: str) -> int:
    """Return the hour of the day, from 0 to 23."""
    return hour % 12 + (12 if half == "pm" else 0) if half else hour


def make_moment(day: tuple[int, int, int], clock: re.Match[str] | None) -> datetime:
    """Return the moment of a day and of what a pattern with `CLOCK` has matched."""
    if clock is None or clock["hour"] is None:
        return datetime(*day)  # noqa: DTZ001 — the caller knows the zone
    hour = _make_hour(int(clock["hour"]), _find_half(clock["half"] or clock["before"]))
    fraction = int((clock["fraction"] or "")[:6].ljust(6, "0"))
    moment = datetime(*day, hour, int(clock["minute"]), int(clock["second"] or 0), fraction)  # noqa: DTZ001 — as above
    zone = clock.groupdict().get("zone")
    return moment.replace(tzinfo=_read_zone(zone)) if zone else moment


def _read_zone(text: str) -> timezone:
    """Return the zone of an offset or of a name. Raise ValueError for names that several zones have, such as IST."""
    offset = text.removeprefix("GMT").removeprefix("UTC")
    if offset[:1] not in ("+", "-"):
        if text not in _ZONE_HOURS:
            raise ValueError(f"zone {text!r} is not known")
        return timezone(timedelta(hours=_ZONE_HOURS[text]))
    minutes = int(offset[1:3]) * 60 + int(offset[-2:])
    return timezone(timedelta(minutes=-minutes if offset[0] == "-" else minutes))


def _parse_words(text: str) -> datetime | None:
    """Return the moment of a date with the name of a month: of ctime, of RFC 2822, or as people write it."""
    text = _IN_BRACKETS.sub("", text)  # JavaScript writes the name of the zone there
    plain = "".join(part for part in unicodedata.normalize("NFD", text) if not unicodedata.combining(part))
    words = re.findall(r"[^\W\d_]+", plain)
    # The last name counts: in "mar. 12 avr. 2024" the first is a day of the week.
    months = [month for word in words if (month := _find_month(word.lower())) is not None]
    if not months or len(words) > _MAX_WORDS:
        return None
    clock = _WORD_CLOCK.search(text)
    date_text = text if clock is None else text[: clock.start()] + " " + text[clock.end() :]
    years = re.findall(r"(?<!\d)\d{4}(?!\d)", re.sub(r"[+-]\d{4}", "", date_text))
    days = re.findall(r"(?<!\d)\d{1,2}(?!\d)", date_text)
    if len(days) == 2 and not years:  # 13-Mar-24
        days, years = days[:1], [str(2000 + int(days[1]))]
    if len(years) != 1 or len(days) != 1:
        return None
    return make_moment((int(years[0]), months[-1], int(days[0])), clock)


def _find_month(word: str) -> int | None:
    return _MONTH_OF.get(word[:4]) or _MONTH_OF.get(word[:3]) if len(word) >= 3 else None
