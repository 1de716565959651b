"""The words of questions: tokens, numbers, periods and cues."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.ask.language.cues import match_cue
from everhold.ask.language.numbers import read_number
from everhold.ask.language.periods import TimeInterval, find_unit, read_period
from everhold.ask.language.tokens import tokenize
from everhold.ask.values import measure_edit_distance

TODAY = date(2024, 3, 15)
UNIT_WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
UNITS = UNIT_WORDS.split()
TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS = TEN_WORDS.split()
DAYS = st.dates(date(1900, 1, 1), date(2100, 12, 31))


def write_in_words(number: int) -> str:
    """Return a number below a million in words."""
    if number >= 1000:
        remainder = number % 1000
        return f"{write_in_words(number // 1000)} thousand" + (f" {write_in_words(remainder)}" if remainder else "")
    if number >= 100:
        remainder = number % 100
        return f"{UNITS[number // 100]} hundred" + (f" {write_in_words(remainder)}" if remainder else "")
    if number >= 20:
        return TENS[number // 10 - 2] + (f" {UNITS[number % 10]}" if number % 10 else "")
    return [*UNITS, "seventeen", "eighteen", "nineteen"][number]


@given(st.integers(0, 999_999))
def test_numbers_in_words_are_read_back(number: int) -> None:
    words = write_in_words(number).split()
    phrase = read_number([*words, "orders"])
    assert phrase is not None
    assert (phrase.value, phrase.length) == (number, len(words))


@given(st.integers(0, 10**12))
def test_numbers_with_separators_are_read_back(number: int) -> None:
    for text in (str(number), f"{number:,}"):
        (token,) = tokenize(text)
        phrase = read_number([token.lower])
        assert phrase is not None
        assert phrase.value == number


@pytest.mark.parametrize(
    ("text", "value", "counts_times"),
    [("3.5 million", 3_500_000, False), ("twice", 2, True), ("three times", 3, True), ("0.25", 0.25, False)],
)
def test_number_phrases_are_read(text: str, value: float, counts_times: bool) -> None:
    phrase = read_number(text.split())
    assert phrase is not None
    assert (phrase.value, phrase.counts_times, phrase.length) == (value, counts_times, len(text.split()))


@pytest.mark.parametrize("text", ["", "orders", "hundred", "million", "1.2.3"])
def test_other_texts_are_not_read_as_numbers(text: str) -> None:
    assert read_number(text.split()) is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", date(2024, 3, 15), date(2024, 3, 16)),
        ("yesterday", date(2024, 3, 14), date(2024, 3, 15)),
        ("last month", date(2024, 2, 1), date(2024, 3, 1)),
        ("this quarter", date(2024, 1, 1), date(2024, 4, 1)),
        ("previous year", date(2023, 1, 1), date(2024, 1, 1)),
        ("last 3 months", date(2023, 12, 1), date(2024, 3, 1)),
        ("last 7 days", date(2024, 3, 8), date(2024, 3, 15)),
        ("q3 2023", date(2023, 7, 1), date(2023, 10, 1)),
        ("may 2014", date(2014, 5, 1), date(2014, 6, 1)),
        ("3rd of may 2014", date(2014, 5, 3), date(2014, 5, 4)),
        ("may 3 2014", date(2014, 5, 3), date(2014, 5, 4)),
        ("2014-05-03", date(2014, 5, 3), date(2014, 5, 4)),
        ("ytd", date(2024, 1, 1), date(2024, 3, 16)),
        ("month to date", date(2024, 3, 1), date(2024, 3, 16)),
    ],
)
def test_periods_are_half_open(text: str, start: date, end: date) -> None:
    phrase = read_period(text, TODAY)
    assert phrase is not None
    assert phrase.interval == TimeInterval(start, end)
    assert phrase.length == len(text)


@pytest.mark.parametrize("text", ["march products", "may co", "2014-02-30", "31 april 2020", "last", "quarterly"])
def test_other_texts_are_not_read_as_periods(text: str) -> None:
    assert read_period(text, TODAY) is None


@given(DAYS, st.sampled_from(["day", "week", "month", "quarter", "year"]), st.integers(-20, 20))
def test_periods_of_a_unit_follow_each_other_without_gaps(day: date, unit: str, offset: int) -> None:
    assert find_unit(day, unit).start <= day < find_unit(day, unit).end
    assert find_unit(day, unit, offset).end == find_unit(day, unit, offset + 1).start


@given(DAYS)
def test_a_day_is_read_from_its_iso_form(day: date) -> None:
    phrase = read_period(day.isoformat(), TODAY)
    assert phrase is not None
    assert phrase.interval == TimeInterval(day, day + timedelta(days=1))


def test_an_empty_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        TimeInterval(TODAY, TODAY)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Who's “New York”?", [("Who", "word"), ("New York", "quoted"), ("?", "mark")]),
        ("over 1,200.5", [("over", "word"), ("1,200.5", "number")]),
        ("it isn't 'x'", [("it", "word"), ("isn't", "word"), ("x", "quoted")]),
        ("since 2024-02-01", [("since", "word"), ("2024-02-01", "word")]),
    ],
)
def test_questions_are_split_into_tokens(text: str, tokens: list[tuple[str, str]]) -> None:
    assert [(token.text, token.kind) for token in tokenize(text)] == tokens


@given(st.text(max_size=80))
def test_any_text_has_tokens(text: str) -> None:
    assert all(token.text for token in tokenize(text))


@pytest.mark.parametrize(
    ("text", "code", "length"),
    [
        ("from the oldest to the youngest one", "<", 6),
        ("more than 3", ">", 2),
        ("or more", "}", 2),
        ("how many", "#", 2),
        ("most expensive", "s", 2),
    ],
)
def test_the_longest_cue_is_matched(text: str, code: str, length: int) -> None:
    cue_match = match_cue(text.split())
    assert cue_match is not None
    assert (cue_match[0].code, cue_match[1]) == (code, length)


@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.integers(0, 4))
def test_the_edit_distance_is_symmetric_and_bounded(first: str, second: str, limit: int) -> None:
    distance = measure_edit_distance(first, second, limit)
    assert distance == measure_edit_distance(second, first, limit)
    assert 0 <= distance <= limit + 1
    assert (distance == 0) == (first == second) or limit == 0
