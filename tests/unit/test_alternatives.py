"""Groups of alternatives: a question that names one member does not ask for the others."""

import pytest

from everhold import Everhold
from everhold.recall.alternatives import find_alternatives
from everhold.text.terms import extract_terms


def test_a_question_names_one_of_a_group() -> None:
    [alternative] = find_alternatives(extract_terms("What is my puppy called?"))
    assert {"dog", "puppi"} <= alternative.named
    assert "cat" in alternative.others
    assert alternative.named.isdisjoint(alternative.others)


def test_a_question_that_names_two_of_a_group_asks_for_both() -> None:
    [alternative] = find_alternatives(extract_terms("Do my dog and my cat get along?"))
    assert {"dog", "cat"} <= alternative.named
    assert "rabbit" in alternative.others


def test_other_questions_name_no_alternative() -> None:
    assert find_alternatives(extract_terms("Where do I live?")) == ()


@pytest.mark.model
@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("My cat is called Mali", "What is my dog's name?"),
        ("My blood pressure was 120 over 80", "What is my blood type?"),
        ("My number is 555-1234", "What is Tess's number?"),
    ],
)
def test_a_text_about_another_alternative_is_not_an_answer(text: str, question: str) -> None:
    other_texts = ["I like hiking on weekends", "Tom plays the cello", "Bought a new sofa for the living room"]
    with Everhold.open("memory://") as engine:
        view = engine.scope(user="alice")
        view.remember_many([*other_texts, text])
        assert [hit.memory.text for hit in view.recall(question)] == []
