"""Known words that are proposed for a misspelled word."""

import pytest

from everhold.ports.thesaurus import NO_THESAURUS, EmptyThesaurus
from everhold.recall.spelling import MAX_CORRECTED_LENGTH, correct_spelling, find_respellings
from everhold.text.terms import extract_terms

COMMON_WORDS = [
    "the", "what", "when", "which", "number", "member", "insurance", "policy", "game", "combination", "expire", "ship",
    "jobs", "worker", "run", "inhaled", "wish",
]  # fmt: skip


class Vocabulary(EmptyThesaurus):
    """A vocabulary of a few words, the most common first."""

    def rank(self, word: str) -> int | None:
        return COMMON_WORDS.index(word) if word in COMMON_WORDS else None


@pytest.mark.parametrize(
    ("term", "known_term"),
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
def test_one_wrong_letter_is_corrected(term: str, known_term: str) -> None:
    assert find_respellings(term, {known_term, "garden"}) == [known_term]


@pytest.mark.parametrize(
    ("term", "known_term"),
    [
        ("kitch", "kitchen"),
        ("kitche", "kitchen"),
        ("kitchen", "kitche"),
        ("plan", "plane"),
        ("planet", "plane"),
        ("garden", "gardens"),
    ],
)
def test_the_beginning_of_a_word_is_another_word(term: str, known_term: str) -> None:
    assert find_respellings(term, {known_term}) == []


@pytest.mark.parametrize("term", ["ikitchen", "itchen", "mitchen", "ktichne", "kitxhan", "iktchen"])
def test_the_first_letter_must_be_right_and_only_one_error_is_corrected(term: str) -> None:
    assert find_respellings(term, {"kitchen"}) == []


@pytest.mark.parametrize(("term", "known_term"), [("tea", "tia"), ("tea", "tera"), ("cat", "cta"), ("act", "atc")])
def test_short_words_are_not_corrected(term: str, known_term: str) -> None:
    assert find_respellings(term, {known_term}) == []


@pytest.mark.parametrize(
    ("term", "known_term"),
    [("xq7719", "xq7791"), ("2023", "2032"), ("москве", "мсокве"), ("東京都庁", "東都京庁"), ("caf3teria", "cafteria")],
)
def test_numbers_names_and_other_scripts_are_not_corrected(term: str, known_term: str) -> None:
    assert find_respellings(term, {known_term}) == []


def test_proposals_are_unique_and_never_the_word_itself() -> None:
    assert find_respellings("barter", {"batter", "banter", "barter", "barer", "better"}) == [
        "banter",
        "barer",
        "batter",
    ]
    assert find_respellings("bottle", {"bottle"}) == []


STORED_TERMS = frozenset(extract_terms("member number of the insurance, Naomi, worker, inhaler, zeppelin"))


@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("the membr numbr of the insurence", "the member number of the insurance"),
        ("waht is the polciy", "what is the policy"),
        ("Waht is it", "what is it"),
        ("which gmae", "which game"),
        ("the combinaton", "the combination"),
        ("wroker", "worker"),
        ("wich one", "which one"),  # a missing letter is likelier than a wrong one
        ("inhalor", "inhaler"),  # not in the list of words, but memories have it
        ("two zepplins", "two zeppelins"),
        ("Where is Noami?", "Where is Naomi?"),  # a name that memories have
    ],
)
def test_misspelled_words_of_a_question_are_corrected(query: str, corrected: str) -> None:
    assert correct_spelling(query, STORED_TERMS.__contains__, Vocabulary()) == corrected


@pytest.mark.parametrize(
    "query",
    [
        "jabs and snip",  # not in the list of words, but near a word that no memory has
        "Where is Naoma?",  # names may differ in the last letter
        "Where is Nami?",  # too short a name
        "inhaler",  # memories have this word, so it is not corrected to "inhaled"
        "naomi runs",  # memories have this word, and it is a form of a known word
        "gam",
        "expires",
        "expire 12345 x" * 3,
        "ĝamo 東京 café",
    ],
)
def test_words_that_may_be_intended_are_not_corrected(query: str) -> None:
    assert correct_spelling(query, STORED_TERMS.__contains__, Vocabulary()) == query


def test_without_a_list_of_words_nothing_is_corrected() -> None:
    assert correct_spelling("waht is the polciy", STORED_TERMS.__contains__, NO_THESAURUS) == "waht is the polciy"


def test_a_long_question_is_not_corrected() -> None:
    assert correct_spelling("waht " * (MAX_CORRECTED_LENGTH // 5), STORED_TERMS.__contains__, Vocabulary()).startswith(
        "what what"
    )
    long_query = "waht " * MAX_CORRECTED_LENGTH
    assert correct_spelling(long_query, STORED_TERMS.__contains__, Vocabulary()) == long_query
