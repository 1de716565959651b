"""Times in English texts; the present is Wednesday, 14 June 2023, noon in Berlin."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.text.date_words import is_trigger
from everhold.text.dates import EARLIEST, LATEST, Anchor, find_anchor, find_time_spans, is_when_question

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2023, 6, 14, 10, 0, tzinfo=UTC)


def list_local_spans(text: str, zone: ZoneInfo = BERLIN) -> list[tuple[str, str]]:
    """Return the spans of a text as local days, or as times if they are not whole days."""
    return [
        (format_moment(span.start, zone), format_moment(span.end, zone)) for span in find_time_spans(text, NOW, zone)
    ]


def format_moment(moment: datetime, zone: ZoneInfo) -> str:
    if moment in (EARLIEST, LATEST):
        return "open"
    local_moment = moment.astimezone(zone)
    is_midnight = (local_moment.hour, local_moment.minute) == (0, 0)
    return f"{local_moment:%Y-%m-%d}" if is_midnight else f"{local_moment:%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("It happened today.", "2023-06-14", "2023-06-15"),
        ("I went there yesterday!", "2023-06-13", "2023-06-14"),
        ("the day before yesterday", "2023-06-12", "2023-06-13"),
        ("the day after tomorrow", "2023-06-16", "2023-06-17"),
        ("see you tonight", "2023-06-14 18:00", "2023-06-15 06:00"),
        ("this morning", "2023-06-14 05:00", "2023-06-14 12:00"),
        ("last night", "2023-06-13 18:00", "2023-06-14 06:00"),
        ("yesterday evening", "2023-06-13 17:00", "2023-06-14"),
        ("tomorrow", "2023-06-15", "2023-06-16"),
        ("last week", "2023-06-05", "2023-06-12"),
        ("this week", "2023-06-12", "2023-06-19"),
        ("next week", "2023-06-19", "2023-06-26"),
        ("last month", "2023-05-01", "2023-06-01"),
        ("this month", "2023-06-01", "2023-07-01"),
        ("next year", "2024-01-01", "2025-01-01"),
        ("last year", "2022-01-01", "2023-01-01"),
        ("last weekend", "2023-06-10", "2023-06-12"),
        ("this weekend", "2023-06-17", "2023-06-19"),
        ("next weekend", "2023-06-24", "2023-06-26"),
        ("last Monday", "2023-06-12", "2023-06-13"),
        ("last Wednesday", "2023-06-07", "2023-06-08"),
        ("this Friday", "2023-06-16", "2023-06-17"),
        ("next Friday", "2023-06-23", "2023-06-24"),
        ("We met on Friday.", "2023-06-09", "2023-06-10"),
        ("We will meet on Friday.", "2023-06-16", "2023-06-17"),
        ("I'm flying on Friday.", "2023-06-16", "2023-06-17"),
        ("We met on Sat", "2023-06-10", "2023-06-11"),
        ("last May", "2023-05-01", "2023-06-01"),
        ("last June", "2022-06-01", "2022-07-01"),
        ("this May", "2023-05-01", "2023-06-01"),
        ("next May", "2024-05-01", "2024-06-01"),
        ("in May", "2023-05-01", "2023-06-01"),
        ("in August", "2022-08-01", "2022-09-01"),
        ("I'll go in August", "2023-08-01", "2023-09-01"),
        ("we start in march", "2023-03-01", "2023-04-01"),
        ("in May 2021", "2021-05-01", "2021-06-01"),
        ("May 2021", "2021-05-01", "2021-06-01"),
        ("early May 2021", "2021-05-01", "2021-05-11"),
        ("mid-May 2021", "2021-05-11", "2021-05-21"),
        ("late May 2021", "2021-05-21", "2021-06-01"),
        ("7 May 2021", "2021-05-07", "2021-05-08"),
        ("1:56 pm on 8 May, 2021", "2021-05-08", "2021-05-09"),
        ("May 7, 2021", "2021-05-07", "2021-05-08"),
        ("May 7th", "2023-05-07", "2023-05-08"),
        ("August 7th", "2022-08-07", "2022-08-08"),
        ("7th of May", "2023-05-07", "2023-05-08"),
        ("the 7th of May 2020", "2020-05-07", "2020-05-08"),
        ("Feb. 3", "2023-02-03", "2023-02-04"),
        ("29 February", "2020-02-29", "2020-03-01"),
        ("2021-05-07", "2021-05-07", "2021-05-08"),
        ("25/07/2021", "2021-07-25", "2021-07-26"),
        ("07/25/2021", "2021-07-25", "2021-07-26"),
        ("3 days ago", "2023-06-11", "2023-06-12"),
        ("two weeks ago", "2023-05-28", "2023-06-04"),
        ("a few days ago", "2023-06-08", "2023-06-13"),
        ("a couple of months ago", "2023-03-16", "2023-05-16"),
        ("two years ago", "2020-12-14", "2021-12-14"),
        ("in two weeks", "2023-06-25", "2023-07-02"),
        ("in 3 days", "2023-06-17", "2023-06-18"),
        ("an hour ago", "2023-06-14 10:30", "2023-06-14 11:30"),
        ("over the past two weeks", "2023-05-31", "2023-06-14 12:00"),
        ("last summer", "2022-06-01", "2022-09-01"),
        ("last winter", "2022-12-01", "2023-03-01"),
        ("last fall", "2022-09-01", "2022-12-01"),
        ("next spring", "2024-03-01", "2024-06-01"),
        ("in the fall", "2022-09-01", "2022-12-01"),
        ("the summer of 2019", "2019-06-01", "2019-09-01"),
        ("in 2019", "2019-01-01", "2020-01-01"),
        ("since 2019", "2019-01-01", "2023-06-14 12:00"),
        ("before June", "open", "2023-06-01"),
        ("after 3 May", "2023-05-04", "open"),
        ("by July 2023", "open", "2023-08-01"),
        ("between May and July", "2022-05-01", "2022-08-01"),
        ("between May and July 2019", "2019-05-01", "2019-08-01"),
        ("between November and February 2019", "2018-11-01", "2019-03-01"),
        ("from 3 May to 7 May 2022", "2022-05-03", "2022-05-08"),
        ("from Friday to Monday", "2023-06-09", "2023-06-13"),
        ("the week of 7 May 2023", "2023-05-01", "2023-05-08"),
        ("the week before 7 May 2023", "2023-04-30", "2023-05-07"),
        ("the weekend before 7 May 2023", "2023-04-29", "2023-05-01"),
        ("the Friday before 15 July 2023", "2023-07-14", "2023-07-15"),
        ("The sunday before 25 May 2023", "2023-05-21", "2023-05-22"),
        ("the Monday after 25 May 2023", "2023-05-29", "2023-05-30"),
        ("the day after 7 May 2023", "2023-05-08", "2023-05-09"),
        ("two weeks before 7 May 2023", "2023-04-20", "2023-04-27"),
        ("the month before May 2023", "2023-04-01", "2023-05-01"),
        ("Christmas was quiet", "2022-12-25", "2022-12-26"),
        ("I will see them at Christmas", "2023-12-25", "2023-12-26"),
        ("New Year's Eve", "2022-12-31", "2023-01-01"),
        ("Thanksgiving 2022", "2022-11-24", "2022-11-25"),
    ],
)
def test_an_expression_means_a_span_of_local_time(text: str, start: str, end: str) -> None:
    assert list_local_spans(text) == [(start, end)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "May I ask something?",
        "You may go now",
        "It may be 7 or 8",
        "chapter 7 may be long",
        "They march on",
        "march 3 miles",
        "wait a second",
        "the sun sat low and we wed",
        "Sat down in the Sun",
        "leaves fall down",
        "spring forward",
        "2022 steps",
        "in 2022 steps",
        "1990 pounds",
        "version 2.2022",
        "v2023.1.4",
        "room 2019",
        "$2019",
        "05/07/2023",
        "30/02/2023",
        "32 May",
        "every Monday",
        "each summer",
        "on Mondays",
        "June is my sister",
        "I talked to May",
        "April and August are friends",
        "a Christmas tree",
        "the weekend",
        "for months",
        "the Friday before the trip",
        "two weeks before the trip",
    ],
)
def test_a_text_that_only_looks_like_a_time_has_none(text: str) -> None:
    assert list_local_spans(text) == []


@pytest.mark.parametrize("word", ["monday", "(monday),", "“today”", "mid-june", "minutes", "year’s", "year's"])
def test_a_word_of_a_time_is_recognised_with_the_punctuation_around_it(word: str) -> None:
    assert is_trigger(word)


@pytest.mark.parametrize(
    "word", ["", ".", "((monday", "mondays", "monday:-", "sunlight", "upmid-june", "monday" * 1000]
)
def test_other_words_are_not_words_of_a_time(word: str) -> None:
    assert not is_trigger(word)


def test_several_times_are_found_in_order_with_their_positions() -> None:
    text = "I moved in May 2021, and since last week I have been ill."
    spans = find_time_spans(text, NOW, BERLIN)
    assert [span.matched for span in spans] == ["in May 2021", "since last week"]
    assert all(text[span.at :].startswith(span.matched) for span in spans)


def test_days_begin_at_midnight_in_the_time_zone() -> None:
    late = datetime(2023, 6, 14, 23, 0, tzinfo=UTC)
    bangkok = ZoneInfo("Asia/Bangkok")
    (span,) = find_time_spans("today", late, bangkok)
    assert (format_moment(span.start, bangkok), format_moment(span.end, bangkok)) == ("2023-06-15", "2023-06-16")


def test_a_day_on_which_clocks_change_has_its_own_length() -> None:
    (span,) = find_time_spans("26 March 2023", NOW, BERLIN)
    assert (span.end - span.start).total_seconds() == 23 * 3600


# Words that rules look for, to be mixed.
POOL = (
    "the|two|a few|weeks|week|before|after|of|last|next|this|May|31|29|February|Friday|weekend|since|between|and|to"
    "|2023|19|in|on|early|late|summer|Christmas|ago|days|years|from|now|by|2020-02-30|,|."
)


@given(st.lists(st.sampled_from(POOL.split("|")), max_size=12))
def test_any_mixture_of_time_words_is_read_and_never_ends_before_it_begins(words: list[str]) -> None:
    text = " ".join(words)
    for span in find_time_spans(text, NOW, BERLIN):
        assert span.start <= span.end
        assert text[span.at : span.at + len(span.matched)] == span.matched


def test_letters_that_get_longer_in_lower_case_shift_no_position() -> None:
    (span,) = find_time_spans("İİİ came yesterday", NOW, BERLIN)
    assert (span.at, span.matched) == (9, "yesterday")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did I do two weeks before the trip?", Anchor((11, 17), -1, "the trip")),
        ("Where was I the day before the wedding?", Anchor((1, 1), -1, "the wedding")),
        ("a few days after Anna's party", Anchor((2, 6), 1, "Anna's party")),
        ("What did she eat during the trip to Oslo?", Anchor((0, 0), 0, "the trip to Oslo")),
        ("right after my exam", Anchor((0, 14), 1, "my exam")),
        ("What happened before I left Acme?", Anchor((0, 36_500), -1, "I left Acme")),
        ("after moving to Rome", Anchor((0, 36_500), 1, "moving to Rome")),
        ("two weeks before 7 May", None),
        ("after June 2020", None),
        ("after all", None),
        ("after that", None),
        ("before long", None),
        ("I ate before dinner", None),
        ("nothing of the kind", None),
    ],
)
def test_a_time_may_be_counted_from_an_event(text: str, expected: Anchor | None) -> None:
    assert find_anchor(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did Anna move?", True),
        ("when's my birthday", True),
        ("What year was that?", True),
        ("Which month did she start?", True),
        ("How long ago did we meet?", True),
        ("Do you remember when she left?", True),
        ("What was the date of the party?", True),
        ("When I was young I sang", False),
        ("How long have I lived here?", False),
        ("What is her name?", False),
        ("Remember when to stop", False),
    ],
)
def test_a_question_may_want_a_time(text: str, expected: bool) -> None:
    assert is_when_question(text) is expected
