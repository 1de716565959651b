"""Questions that ask several things, split into clauses that can be asked alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.recall.clauses import split_clauses


@pytest.mark.parametrize(
    ("query", "clauses"),
    [
        ("Where do I live and what car do I drive?", ("Where do I live", "what car do I drive")),
        ("What's my name, and who does Heron work for?", ("What's my name", "who does Heron work for")),
        ("When is the party, where is it held?", ("When is the party", "where is the party held")),
        ("Who is Ana's dentist? When does she see him?", ("Who is Ana's dentist", "When does Ana see him")),
        ("How old is my son and what is his school?", ("How old is my son", "what is my son's school")),
        ("what's my PIN, also my blood type", ("what's my PIN", "what's my blood type")),
        ("Is my passport valid and does my visa expire?", ("Is my passport valid", "does my visa expire")),
    ],
)
def test_clauses_are_split_and_completed(query: str, clauses: tuple[str, ...]) -> None:
    assert split_clauses(query) == clauses


@pytest.mark.parametrize(
    "query",
    [
        "Where do I live?",
        "What did I say about salt and pepper?",
        "Where did my son and I sit?",
        "Who treats my knee and when?",
        "Which pill am I on, and how strong?",
        "Who got my race bib, and where does she live?",
        "Who does my mowing and what do I pay?",
        "Which colleague got trapped and had to be rescued?",
        "What is Mrs. Lim's address?",
        "my codes and what they open",
        "I moved. Where do I live and what do I pay?",
    ],
)
def test_other_questions_are_not_split(query: str) -> None:
    assert split_clauses(query) == ()


@given(st.text(max_size=80))
def test_any_text_can_be_split(query: str) -> None:
    assert len(split_clauses(query)) != 1
