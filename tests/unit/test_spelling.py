"""Which known words a misspelled one may have been meant for."""

import pytest

from everhold.recall.spelling import respelled


@pytest.mark.parametrize(
    ("term", "known"),
    [
        ("recieve", "receive"),
        ("form", "from"),
        ("kitchne", "kitchen"),
        ("kichen", "kitchen"),
        ("kittchen", "kitchen"),
        ("kitchan", "kitchen"),
        ("alerg", "allerg"),
        ("eror", "error"),
        ("mogodb", "mongodb"),
    ],
)
def test_a_slip_is_forgiven(term: str, known: str) -> None:
    assert respelled(term, {known, "garden"}) == [known]


@pytest.mark.parametrize(
    ("term", "known"),
    [
        ("kitch", "kitchen"),
        ("kitche", "kitchen"),
        ("kitchen", "kitche"),
        ("plan", "plane"),
        ("planet", "plane"),
        ("garden", "gardens"),
    ],
)
def test_the_beginning_of_a_word_is_another_word(term: str, known: str) -> None:
    assert respelled(term, {known}) == []


@pytest.mark.parametrize("term", ["ikitchen", "itchen", "mitchen", "ktichne", "kitxhan", "iktchen"])
def test_the_first_letter_must_be_right_and_one_slip_is_the_most(term: str) -> None:
    assert respelled(term, {"kitchen"}) == []


@pytest.mark.parametrize(("term", "known"), [("tea", "tia"), ("tea", "tera"), ("cat", "cta"), ("act", "atc")])
def test_short_words_are_not_guessed_at(term: str, known: str) -> None:
    assert respelled(term, {known}) == []


@pytest.mark.parametrize(
    ("term", "known"),
    [("xq7719", "xq7791"), ("2023", "2032"), ("москве", "мсокве"), ("東京都庁", "東都京庁"), ("caf3teria", "cafteria")],
)
def test_numbers_names_and_other_scripts_are_taken_as_they_are(term: str, known: str) -> None:
    assert respelled(term, {known}) == []


def test_all_that_may_be_meant_each_once_and_never_the_word_itself() -> None:
    assert respelled("barter", {"batter", "banter", "barter", "barer", "better"}) == ["banter", "barer", "batter"]
    assert respelled("bottle", {"bottle"}) == []
