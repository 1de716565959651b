"""The intent of a question: lists, values, names, the past, and the parts before and after the word "before"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.recall.intent import read_intent, split_before
from everhold.recall.postings import Postings
from everhold.recall.text_features import CODE, DATE, LONG_NUMBER, NUMBER, find_features, find_row_features
from everhold.text.terms import extract_terms


@pytest.mark.parametrize(
    "query",
    [
        "What health problems do I have?",
        "Who is in my family?",
        "what do you know about Tom?",
        "Which trips did we take?",
        "List my allergies",
        "Tell me everything about the kitchen",
        "what do u know about Farhan",
        "What have you got on Maxine?",
        "What sewing have I done?",
        "What's been wrong with my knee?",
        "what happened in february",
        "Can you summarise the repairs?",
        "customers so far",
        "all invoices that are due",
        "every plant in the garden",
        "names of my colleagues",
        "keys and cards I carry",
        "Which hotels was I in last winter?",
        "What were my results at the pool?",
        "Who have we hired?",
        "How did the move go?",
        "the boiler, whole story please",
        "Which shops in Delft have I tried or liked?",
    ],
)
def test_questions_that_ask_for_a_list_are_recognised(query: str) -> None:
    assert read_intent(query).lists


@pytest.mark.parametrize(
    "query",
    [
        "Where do I live?",
        "What is my boss called?",
        "Which bus is it?",
        "my address",
        "name of my dentist",
        "Which plumber have I got?",
        "whereabouts in Delft is it",
        "What was the news from Ada?",
        "How did I go to Rome?",
    ],
)
def test_other_questions_ask_for_one_answer(query: str) -> None:
    assert not read_intent(query).lists


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("What's my phone number?", LONG_NUMBER | CODE),
        ("the wifi password", CODE | LONG_NUMBER),
        ("How much is the rent?", NUMBER),
        ("When is the dentist?", NUMBER | DATE),
        ("Who is my dentist?", 0),
    ],
)
def test_questions_name_the_kind_of_value_they_ask_for(query: str, values: int) -> None:
    assert read_intent(query).values == values


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("My number is 503-555-0142", NUMBER | LONG_NUMBER | CODE),
        ("The code is 7305", NUMBER | CODE),
        ("Choir is on Tuesdays", DATE),
        ("wifi: purple-otter-88x", CODE),
        ("There are twelve of us, and two dogs", NUMBER),
        ("I like tea", 0),
    ],
)
def test_kinds_of_values_in_texts_are_recognised(text: str, marks: int) -> None:
    values = NUMBER | LONG_NUMBER | CODE | DATE
    assert find_features(" ".join(extract_terms(text))) & values == marks


@given(
    st.lists(
        st.lists(
            st.sampled_from(
                ["tea", "twelv", "7", "42", "305", "90125", "555123", "5550142", "x9", "monday", "switch", "also", "²"]
            )
        ),
        min_size=1,
    )
)
def test_features_of_many_rows_equal_those_of_each_row(documents: list[list[str]]) -> None:
    texts = [" ".join(document) for document in documents]
    postings = Postings()
    postings.load([texts])
    assert find_row_features(postings, len(texts)).tolist() == [find_features(text) for text in texts]


@pytest.mark.parametrize(
    ("query", "head"),
    [
        ("What is my blood type?", "type"),
        ("Which city did I live in before Denver?", "citi"),
        ("what kind of car do I drive", "car"),
        ("What's the license plate on the Equinox?", "plate"),
        ("What did I plant?", ""),
        ("Where do I live?", ""),
    ],
)
def test_the_head_noun_of_a_question_is_found(query: str, head: str) -> None:
    assert read_intent(query).head == head


def test_an_intent_has_the_first_person_and_the_number_of_words() -> None:
    intent = read_intent("What’s my mother's name?")
    assert (intent.first_person, intent.words) == (True, 6)
    assert not read_intent("Where does Mia live?").first_person


def test_names_in_a_question_are_found() -> None:
    assert read_intent("Where does Tess live?").names == {"tess"}
    assert read_intent("what's tom's number").names == {"tom"}
    assert read_intent("What is my mother's name?").names == frozenset()
    assert read_intent("Did we meet in October?").names == frozenset()


def test_questions_about_the_past_and_double_questions_are_recognised() -> None:
    assert read_intent("What was my old number?").past
    assert not read_intent("What is my number?").past
    assert read_intent("When is the exam, and who gives it?").joins


def test_questions_for_a_replaced_value_are_recognised() -> None:
    for query in ("What was my old number?", "Which car did I use to drive?", "Where did he live before Rome?"):
        assert read_intent(query).replaced, query
    for query in ("How old is Tom?", "What is her first name?", "Who is my old friend?", "Do I eat before running?"):
        assert not read_intent(query).replaced, query


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("Which city did I live in before Denver?", ("Which city did I live in", "Denver")),
        ("What was my rate, before I raised it?", ("What was my rate", "I raised it")),
        ("who had the seat before farhan", ("who had the seat", "farhan")),
        ("What did I buy two weeks before the trip?", None),
        ("How long before cooking do I salt it?", None),
        ("What did I do before May?", None),
        ("Where do I live?", None),
        ("before the move", None),
    ],
)
def test_a_question_is_split_at_before(query: str, parts: tuple[str, str] | None) -> None:
    assert split_before(query) == parts
