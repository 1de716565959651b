"""Find English time expressions in a text and resolve each to a time span.

The meaning of an expression depends on the time and the time zone in which it is said.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import NamedTuple

from everhold.text.date_forms import (
    ANY_FORM,
    FORMS,
    OFFSET,
    PATTERNS,
    Interval,
    Resolve,
    TimeMatch,
    estimate_days,
    make_day,
    make_interval,
    parse_quantity,
    shift_month,
)
from everhold.text.date_words import DAYPARTS, NUMBERS, OPENERS, UNIT_DAYS, WEEKDAYS, is_trigger
from everhold.text.lazy_pattern import lazy_pattern

# The start of a span that has no start, for example "before June".
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)

# The end of a span that has no end, for example "after June".
LATEST = datetime(9999, 12, 31, tzinfo=UTC)

# In characters. Time expressions after this position are ignored.
MAX_TEXT_LENGTH = 32_000

# A century, because "after the trip" has no upper limit.
UNBOUNDED_DAYS = 36_500
# The highest number of days that "shortly after" can mean.
SOON_DAYS = 14


class TimeSpan(NamedTuple):
    """A span of time and the words that name it."""

    start: datetime
    """In UTC, inclusive."""
    end: datetime
    """In UTC, exclusive."""
    matched: str
    at: int
    """The position of `matched` in the text."""


class Anchor(NamedTuple):
    """A time relative to an event, such as "two weeks before the trip"."""

    offset: tuple[int, int]
    """The lowest and the highest number of days between the time and the event."""
    direction: int
    """-1 for before the event, 1 for after it, 0 for the same time."""
    anchor: str
    """The event, as the text words it."""


class _Piece(NamedTuple):
    """A resolved time expression at `at` to `end` of a text, and the preposition before it."""

    interval: Interval
    lead: str
    at: int
    end: int


_DIGIT = lazy_pattern("[0-9]")
_FUTURE = lazy_pattern(
    r"\b(?:will|won't|going to|gonna|plan(?:s|ning)?|upcoming|coming|about to|scheduled|due|booked|looking forward"
    r"|(?:have|has) an? (?:\w+ ){0,2}?(?:appointment|meeting|exam|interview|flight|deadline|test|concert|wedding))\b"
    r"|[’']ll\b|(?:[’'](?:m|s|re)|\b(?:am|is|are)) (?:fly|visit|mov|meet|travel|leav|start|driv|see|host"
    r"|giv|go|hav)ing\b"
)
_SENTENCE_START = lazy_pattern(r"[.!?] |\n")
_SENTENCE_BREAK = lazy_pattern(r"[.!?\n](?=\s)")
_WORD = lazy_pattern("[a-z0-9]+")
_NEXT_WORD = lazy_pattern(r"[ ,]*([\w'’-]+)")
_RECURRING = ("every ", "each ", "most ", "any ", "every other ")
_BETWEEN = lazy_pattern(r"^ (?:and|to|until|till|through) (?:the )?$|^\s?[-–—]\s?$")


def find_time_spans(text: str, now: datetime, zone: tzinfo) -> list[TimeSpan]:
    """Return the times that a text names, in order, as a speaker in `zone` means them at `now`.

    A day or month without a year is the last one that is not in the future, unless the sentence is about the future.
    Weeks begin on Monday, and seasons are those of the northern hemisphere. Times outside the years 1 to 9999 are
    skipped.
    """
    lower = text.lower()
    if not _DIGIT.search(text) and not any(map(is_trigger, lower.split())):
        return []
    if len(lower) != len(text):
        # The lower-case form of some letters has another length, which would shift the positions of all matches.
        lower = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    text, lower = text[:MAX_TEXT_LENGTH], lower[:MAX_TEXT_LENGTH]
    time_spans = [
        _make_span(text, piece, now, zone) for piece in _join_ranges(lower, _find_pieces(text, lower, now, zone))
    ]
    return [span for span in time_spans if span is not None]


def _find_pieces(text: str, lower: str, now: datetime, zone: tzinfo) -> list[_Piece]:
    """Find the dates and times in a text, and return the time span and the place of each.

    `lower` is the text in lower case.
    """
    local = _convert_to_zone(now, zone).replace(tzinfo=None)
    moment = now.astimezone(UTC)
    is_about_future = _make_future_check(lower)
    pieces: list[_Piece] = []
    search_start = 0
    for word in _WORD.finditer(lower):
        if word.start() < search_start or not (word[0] in OPENERS or word[0][0].isdigit()):
            continue
        match = ANY_FORM.match(lower, word.start())
        if match is None:
            continue
        name = match.lastgroup or ""
        lead = match["lead"] or ""
        start, end = match.span(name)
        parts = PATTERNS[name].fullmatch(lower, start, end)
        is_continued = bool(pieces) and bool(_BETWEEN.match(lower[pieces[-1].end : start]))
        follow = _NEXT_WORD.match(lower, end)
        time_match = TimeMatch(
            parts={key: value or "" for key, value in parts.groupdict().items()} if parts else {},
            text=text[start:end],
            lead=lead,
            follow=follow[1] if follow else "",
            is_continued=is_continued,
            is_future=is_about_future(start),
            now=local,
            moment=moment,
        )
        is_recurring = lower.endswith(_RECURRING, 0, match.start())
        interval = _resolve(FORMS[name][1], time_match) if parts and not is_recurring else None
        if interval is not None:
            pieces.append(_Piece(interval, lead, match.start(), end))
            search_start = end
    return pieces


def _convert_to_zone(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:  # on the first or the last day of the calendar
        return moment


def _resolve(resolve: Resolve, time_match: TimeMatch) -> Interval | None:
    try:
        return resolve(time_match)
    except (OverflowError, ValueError):  # before year 1 or after year 9999
        return None


def _make_future_check(lower: str) -> Callable[[int], bool]:
    """Return a function that returns whether the sentence at a position is about the future.

    The text is searched once, at the first call.
    """

    @cache
    def find_sentences() -> tuple[list[int], list[int], list[tuple[int, int]]]:
        starts = [match.start() + 1 for match in _SENTENCE_START.finditer(lower)]
        stops = [match.start() for match in _SENTENCE_BREAK.finditer(lower)]
        return starts, stops, [match.span() for match in _FUTURE.finditer(lower)]

    def is_about_future(position: int) -> bool:
        starts, stops, futures = find_sentences()
        start, stop = bisect_right(starts, position), bisect_left(stops, position)
        low = starts[start - 1] if start else 0
        high = stops[stop] if stop < len(stops) else len(lower)
        first = bisect_left(futures, (low, 0))
        return first < len(futures) and futures[first][1] <= high

    return is_about_future


def _join_ranges(lower: str, pieces: list[_Piece]) -> list[_Piece]:
    """Return the pieces with the two ends of a range joined into one, as in "between May and July"."""
    result: list[_Piece] = []
    for piece in pieces:
        previous = result[-1] if result else None
        interval = None
        if previous and previous.lead in ("between", "from") and _BETWEEN.match(lower[previous.end : piece.at]):
            interval = _join_intervals(previous.interval, piece.interval)
        if previous and interval:
            result[-1] = _Piece(interval, "", previous.at, piece.end)
        else:
            result.append(piece)
    return result


def _join_intervals(first: Interval, last: Interval) -> Interval | None:
    try:
        return _compute_range(first, last)
    except (OverflowError, ValueError):  # before year 1 or after year 9999
        return None


def _compute_range(first: Interval, last: Interval) -> Interval:
    low = first.low
    if first.yearless and low.tzinfo is None and last.high.tzinfo is None:
        final = last.high - timedelta(microseconds=1)
        # The other year may have no 29 February, so 1 March is used instead.
        safe = low if (low.month, low.day) != (2, 29) else low + timedelta(days=1)
        low = safe.replace(year=final.year)
        if low > final:
            low = safe.replace(year=final.year - 1)
    elif low >= last.high:
        # In "from Friday to Monday", both are the last such day, and the last Friday may be after the last Monday.
        low -= timedelta(weeks=1)
    return Interval(min(low, last.high), last.high)


def _make_span(text: str, piece: _Piece, now: datetime, zone: tzinfo) -> TimeSpan | None:
    try:
        return _compute_span(text, piece, now, zone)
    except (OverflowError, ValueError):  # before year 1 or after year 9999
        return None


def _compute_span(text: str, piece: _Piece, now: datetime, zone: tzinfo) -> TimeSpan:
    interval = piece.interval
    lead = piece.lead
    if lead.endswith((" of", " before", " after", " following", " prior to")) and lead != "as of":
        interval = _resolve_relation(interval, lead)
    start, end = _convert_to_utc(interval.low, zone), _convert_to_utc(interval.high, zone)
    if lead == "since":
        end = max(now.astimezone(UTC), end if start > now else start)
    elif lead == "before":
        start, end = EARLIEST, start
    elif lead in ("until", "till", "by"):
        start = EARLIEST
    elif lead == "after":
        start, end = end, LATEST
    return TimeSpan(start, end, text[piece.at : piece.end], piece.at)


def _convert_to_utc(moment: datetime, zone: tzinfo) -> datetime:
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def _resolve_relation(interval: Interval, lead: str) -> Interval:
    """Return the interval that is related to another by `lead`, as in "the weekend before 7 May"."""
    bare = lead.removeprefix("the ").removeprefix("that ")
    words, _, side = bare.partition(" ")
    if number := OFFSET.match(bare):
        sign = -1 if lead.endswith(("before", "prior to")) else 1
        least, most = sorted(sign * amount for amount in estimate_days(number["count"], number["unit"]))
        base = interval.low.date()
        return make_interval(base + timedelta(days=least), base + timedelta(days=most + 1))
    first, day_after = interval.low.date(), interval.high.date()
    if words in DAYPARTS:
        shift = {"of": 0, "before": -1}.get(side, 1)
        return make_day(first + timedelta(days=shift), words)
    if words in WEEKDAYS or words == "weekend":
        return _find_weekday(interval, words, side)
    if side == "of":
        monday = first - timedelta(days=first.weekday())
        return make_interval(monday, monday + timedelta(weeks=1)) if words == "week" else interval
    is_before = side in ("before", "prior to")
    if words in ("month", "year"):
        months = 1 if words == "month" else 12
        base = first if words == "month" else first.replace(month=1, day=1)
        start = shift_month(base, -months if is_before else months)
        return make_interval(start, shift_month(start, months))
    length = timedelta(days=UNIT_DAYS[words])
    return make_interval(first - length, first) if is_before else make_interval(day_after, day_after + length)


def _find_weekday(interval: Interval, words: str, side: str) -> Interval:
    length = 2 if words == "weekend" else 1
    weekday = 5 if words == "weekend" else WEEKDAYS[words]
    first, day_after = interval.low.date(), interval.high.date()
    if side == "of":
        start = first + timedelta(days=weekday - first.weekday())
    elif side in ("before", "prior to"):
        latest = first - timedelta(days=length)
        start = latest - timedelta(days=(latest.weekday() - weekday) % 7)
    else:
        start = day_after + timedelta(days=(weekday - day_after.weekday()) % 7)
    return make_interval(start, start + timedelta(days=length))


_SIDES = ("before", "after", "prior to", "following", "during", "at the time of")
_ANCHORED = lazy_pattern(
    rf"\b(?:(?P<count>\d{{1,3}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))}|a couple(?: of)?|a few|several) "
    r"(?P<unit>day|week|month|year)s? |the (?P<one>day|week|month|year|night|morning|weekend) |"
    r"(?P<soon>right|just|shortly|soon) )?"
    rf"(?P<side>{'|'.join(_SIDES)})"
    r" (?P<anchor>(?:the|my|our|his|her|their|your|this|that|I|we|she|he|they|[A-Z]\w+|\w+ing)\b[^?.!,;\n]*)"
)
_NOT_EVENTS = lazy_pattern(r"(?:that|this|the (?:day|week|month|year)|everything|anything|something)$")
_TAIL = lazy_pattern(r" (?:and|but|because|so|or) .*$")


def find_anchor(text: str) -> Anchor | None:
    """Return the event to which a time in the text is relative; None if there is none, or if it is a date."""
    match = _ANCHORED.search(text) if any(side in text for side in _SIDES) else None
    if match is None:
        return None
    event = _TAIL.sub("", match["anchor"]).strip()
    if not event or _NOT_EVENTS.match(event.lower()) or is_time(event):
        return None
    side = match["side"]
    direction = 0 if side in ("during", "at the time of") else -1 if side in ("before", "prior to") else 1
    return Anchor(_compute_offset(match, direction), direction, event)


def is_time(event: str) -> bool:
    """Return whether these words begin with a time expression and so do not name an event."""
    match = ANY_FORM.match(event.lower())
    return match is not None


def _compute_offset(match: re.Match[str], direction: int) -> tuple[int, int]:
    if match["count"]:
        least, most = estimate_days(match["count"], match["unit"])
        return (least, most) if parse_quantity(match["count"])[1] else (0, most)
    if match["one"]:
        return (0, 2) if match["one"] in ("night", "morning") else (1, UNIT_DAYS.get(match["one"], 7))
    if match["soon"]:
        return 0, SOON_DAYS
    return (0, UNBOUNDED_DAYS) if direction else (0, 0)


_ASKS_WHEN = lazy_pattern(
    r"\b(?:when(?:[’']s|[’']d)?(?: exactly| else)? (?:did|do|does|is|was|were|are|will|has|have|had|would"
    r"|should|can|could)\b"
    r"|when[’']s\b|(?:what|which)(?: \w+)? (?:date|day|time|year|month|week|weekday|weekend|season)s?\b"
    r"|what[’']s the date"
    r"|what (?:is|was) the (?:date|day|year)\b|how long ago|how recently|since when|how many (?:days|weeks"
    r"|months|years) ago"
    r"|(?:tell me|know|remember|recall|say|remind me|find out) when (?!to\b)|date of)"
)


def is_when_question(text: str) -> bool:
    """Return whether a question asks for a time."""
    return _ASKS_WHEN.search(text.lower()) is not None
