"""The attribute that a question asks for, and how clearly a text states it."""

import pytest

from everhold.recall.asked_attribute import AttributeEvidence, measure_evidence
from everhold.recall.intent import read_intent
from everhold.recall.lexicon import Phrase, PhraseIndex, TextWord, get_lexicon, split_phrase
from everhold.recall.text_reading import read_text

TYPES = {"none", "name", "person", "place", "title", "language", "number", "code", "phone", "email", "date", "time"}


def measure(question: str, text: str) -> AttributeEvidence:
    return measure_evidence(read_text(text), read_intent(question).asked)


def list_phrases(index: PhraseIndex) -> list[Phrase]:
    return [phrase for by_second in index.values() for phrases in by_second.values() for phrase in phrases]


def index_asking_phrases() -> PhraseIndex:
    lexicon = get_lexicon()
    return lexicon.index_asks([TextWord(first, first) for first in lexicon.asks_by_first_word])


def test_phrases_that_ask_have_neither_names_nor_numbers() -> None:
    """`read_asked_attribute` does not tell which words of a question are names or numbers."""
    assert {"@", "0"}.isdisjoint(stem for phrase in list_phrases(index_asking_phrases()) for stem in phrase.stems)


def test_every_attribute_has_phrases_and_known_types_of_value() -> None:
    lexicon = get_lexicon()
    for phrases in (index_asking_phrases(), lexicon.states, lexicon.hints):
        assert {phrase.attribute for phrase in list_phrases(phrases)} == set(lexicon.attributes.values())
    assert all(types and types <= TYPES for types in lexicon.values.values())


@pytest.mark.parametrize(
    ("question", "attribute"),
    [
        ("Where do I work?", "employer"),
        ("Who do I report to?", "manager"),
        ("Which town do I live in?", "residence"),
        ("What is my phone number?", "phone number"),
        ("When is my dentist appointment?", "event date"),
        ("Who is my dentist?", "doctor"),
    ],
)
def test_questions_name_the_attribute_that_they_ask_for(question: str, attribute: str) -> None:
    assert read_intent(question).asked.attributes == get_lexicon().attributes[attribute]


def test_questions_name_the_person_or_thing_of_the_attribute() -> None:
    assert read_intent("Where do I live?").asked.people == frozenset()
    assert read_intent("Where does Kofi live?").asked.people == {"kofi"}
    assert "sister" in read_intent("Where does my sister live?").asked.people
    assert "dentist" in read_intent("When is my dentist appointment?").asked.things


def test_other_questions_ask_for_no_attribute() -> None:
    assert read_intent("What did the fox say about glaciers?").asked.attributes == 0


def test_a_change_is_clearer_than_a_statement() -> None:
    question = "Where do I work?"
    old, new = measure(question, "I work at Nordwind."), measure(question, "I left Nordwind and joined Sunfield.")
    assert old.stated == new.stated == 1.0
    assert new.changed > old.changed
    assert old.apart == new.apart == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "My brother lives in Oslo now.",
        "Kofi has moved to Oslo.",
        "My aunt sold her house. She lives in Oslo now.",
        "I might move to Oslo.",
        "If all goes well, I live in Oslo soon.",
        "I used to live in Oslo.",
        "Should I move to Oslo?",
    ],
)
def test_changes_of_other_people_are_not_changes_of_the_speaker(text: str) -> None:
    evidence = measure("Where do I live?", text)
    assert evidence.apart > evidence.changed


def test_the_value_may_be_the_subject_of_a_sentence() -> None:
    assert measure("Who is my manager?", "Rosa took over our team.").stated == 1.0
    assert measure("Who is my manager?", "Rosa's manager is called Ole.").apart > 0


def test_a_text_about_another_person_is_not_evidence() -> None:
    assert measure("Where does Kofi live?", "I live in Oslo.") == (0.0, 0.0, 0.0, 0.0)
    assert measure("Where does Kofi live?", "Kofi lives in Oslo.").stated == 1.0


def test_unrelated_words_of_one_stem_are_not_similar() -> None:
    assert split_phrase("accountant") != split_phrase("account")
