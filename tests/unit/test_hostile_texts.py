"""Texts made to be slow: the work is bounded by the length of the text. The tests count steps instead of seconds."""

import re
import tracemalloc
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fuzz_values import TEXTS
from everhold.errors import InvalidInput
from everhold.facts.reading import read_statements
from everhold.recall.cursor import decode_hit_place, decode_page
from everhold.recall.filters import make_filter
from everhold.recall.question import read_question
from everhold.recall.spelling import find_respellings
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.text import dates
from everhold.text import terms as terms_module
from everhold.text.chunking import split_into_chunks
from everhold.text.dates import find_anchor, find_time_spans, is_when_question
from everhold.text.terms import MAX_WORD_LENGTH, extract_terms, fold, normalise

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
MALFORMED = re.compile("[\x00\ud800-\udfff]")
WELL_FORMED = [text[:10_000] for text in TEXTS if not MALFORMED.search(text)]


class CountingWords(set[str]):
    """A set of known words that counts lookups."""

    lookups = 0

    def __contains__(self, word: object) -> bool:
        self.lookups += 1
        return super().__contains__(word)


@pytest.mark.parametrize("length", [3, 10, 32, 33, 100, 40_000])
def test_few_spellings_are_tried_for_a_word_of_any_length(length: int) -> None:
    known_words = CountingWords({"kitchen"})
    find_respellings("k" + "abcdefghij"[length % 10] * (length - 1), known_words)
    assert known_words.lookups <= 54 * 32


def test_a_word_of_32_letters_is_still_respelled() -> None:
    word = "abcdefgh" * 4
    assert find_respellings(word[:10] + "x" + word[11:], {word}) == [word]
    assert find_respellings(word + "x", {word + "y"}) == []


@pytest.mark.parametrize("text", WELL_FORMED, ids=lambda text: ascii(text[:12]))
def test_reading_a_hostile_text_takes_steps_in_proportion_to_its_length(text: str) -> None:
    tracemalloc.start()
    try:
        terms = extract_terms(text)
        assert all(len(term) <= MAX_WORD_LENGTH for term in terms)
        assert len(terms) <= 20 * len(text)  # one letter may stand for a whole phrase, as ﷺ does
        normalise(text)
        find_time_spans(text, NOW, UTC)
        find_anchor(text)
        is_when_question(text)
        read_statements(text, speaker="Alice", now=NOW, zone=UTC)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 5_000_000 + 1_000 * len(text)
    model = FakeEmbedder()
    read_question(model, text or "x", NOW, UTC, {"alice": "Alice"})
    assert all(span.end - span.start <= 512 * 16 for span in split_into_chunks(text, model))


def test_the_stemmer_keeps_no_long_words() -> None:
    terms_module.stem.cache_clear()
    for number in range(100):
        extract_terms(f"{'x' * 40_000}{number}")
    assert terms_module.stem.cache_info().currsize == 1


def test_long_runs_of_marks_are_cut_before_they_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python sorts the marks after a letter in quadratic time, so it must never see many."""
    longest = 0

    def measure_run(form: str, text: str) -> str:
        nonlocal longest
        run = 0
        for letter in text:
            run = run + 1 if unicodedata.combining(letter) else 0
            longest = max(longest, run)
        return unicodedata.normalize(form, text)

    class WatchedUnicodedata:
        normalize = staticmethod(measure_run)
        combining = staticmethod(unicodedata.combining)

    monkeypatch.setattr(terms_module, "unicodedata", WatchedUnicodedata)
    for run in ("\u0315\u0300" * 500, "\u0301" * 31, "\u0301" * 45, "\U0001e944" * 100, "\u0f71\u0f72" * 40):
        for before in range(20):
            fold("x" * before + "a" + run + "b" + run)
    assert longest <= 60


def test_usual_marks_do_not_change() -> None:
    for text in ("Ünïcödé", "पत्नी को चाय", "שָׁלוֹם", "e\u0301" * 200, "ก็" * 100):
        expected = unicodedata.normalize("NFKD", text).casefold()
        assert fold(text) == unicodedata.normalize("NFKC", terms_module._ACCENTS.sub("", expected))


FORMS = (
    "yesterday", "tomorrow night", "in two years", "999 years ago", "999 weeks from now", "last summer", "next May",
    "this past Christmas", "next Friday", "the day before yesterday", "the last 999 months", "in 3 minutes",
    "from Friday to Monday", "between May and July", "the weekend before 7 May", "two weeks before 7 May 2020",
    "the year after 2099", "since June", "last month", "next year", "29 February", "early next spring",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Asia/Bangkok"), ZoneInfo("America/New_York")], ids=str)
def test_times_at_the_ends_of_the_calendar_are_read(form: str, zone: tzinfo) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    for days in (0, 1, 6, 40, 400, 900):
        for now in (first + timedelta(days=days), last - timedelta(days=days)):
            for span in find_time_spans(f"We will meet {form}. We met {form}.", now, zone):
                assert span.start >= dates.EARLIEST
                assert span.end.tzinfo is not None


@given(st.lists(st.sampled_from([*FORMS, "will", "and", ". ", "\n", "! I", "we", "to", "has a", "?"]), max_size=12))
def test_the_future_is_read_once_and_as_before(words: list[str]) -> None:
    """The fast reader agrees with searching each sentence."""
    lower = " ".join(words).lower()
    is_future = dates._make_future_check(lower)
    for index in range(len(lower)):
        if lower[index].isspace():  # no time begins there
            continue
        start = max(lower.rfind(mark, 0, index) for mark in (". ", "! ", "? ", "\n")) + 1
        stop = dates._SENTENCE_BREAK.search(lower, index)
        assert is_future(index) == bool(dates._FUTURE.search(lower, start, stop.start() if stop else len(lower)))


def test_a_text_is_searched_for_the_future_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched_length = 0
    original = dates._FUTURE

    class WatchedPattern:
        @staticmethod
        def finditer(text: str) -> Iterator[Any]:
            nonlocal searched_length
            searched_length += len(text)
            return original.finditer(text)

    monkeypatch.setattr(dates, "_FUTURE", WatchedPattern)
    text = "today " * 50_000
    assert find_time_spans(text, NOW, UTC)
    assert searched_length <= dates.MAX_TEXT_LENGTH


@pytest.mark.parametrize(
    "cursor",
    ["", "!", "=", "W10", "bnVsbA", "WzEsMl0", "WzFlOTk5LCJ4Il0", "W05hTiwieCJd", "WzEsIlx1ZDgwMCJd", "W1tb" * 9_999],
)  # fmt: skip
def test_hostile_cursors_are_refused(cursor: str) -> None:
    for decode in (decode_hit_place, lambda text: decode_page(text, "acme")):
        with pytest.raises(InvalidInput, match=r"invalid cursor .*; pass the value from the previous page"):
            decode(cursor)


def test_filters_are_bounded() -> None:
    for where, message in (
        ({f"metadata.{n}": n for n in range(101)}, "101 conditions; use at most 100"),
        ({"id": ["x"] * 10_001}, "10,001 values; use at most 10,000"),
        ({"metadata." + "a." * 600: 1}, "a field has 1,209 characters; use at most 1,000"),
        ({"importance": {">": float("nan")}}, "use a finite one"),
        ({"metadata.a": {"b": 10**5000}}, "use at most 64, or text"),
        ({"metadata.a": b"x"}, "JSON cannot hold a value of type bytes"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make_filter(where)
    assert make_filter({"id": ["x"] * 10_000, "metadata.a": {1, 2}}).conditions
