"""A question about gate 7 is not answered by a newer fact about gate 9."""

from datetime import UTC, datetime

import pytest

from everhold import Everhold
from everhold.recall.intent import read_intent
from everhold.testing.fake_embedder import FakeEmbedder


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("What is the code of gate 7?", {"7"}),
        ("who lives in apartment no. 12b", {"12b"}),
        ("What happened on May 7?", set()),
        ("Where was I in week 12?", set()),
        ("Did I pay 900 for it?", set()),
        ("When is the flight at 7:30?", set()),
    ],
)
def test_numbers_that_identify_things_are_read(question: str, numbers: set[str]) -> None:
    assert read_intent(question).numbers == numbers


def test_a_newer_fact_about_another_number_is_not_an_update() -> None:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
        alice = engine.scope(user="alice")
        for day, gate in enumerate((7, 9, 12, 15), start=1):
            alice.remember(f"The code of gate {gate} is {gate}{gate}31", occurred_at=datetime(2025, 5, day, tzinfo=UTC))
        for gate in (7, 9, 12):
            best = alice.recall(f"What is the code of gate {gate}?")[0]
            assert best.memory.text == f"The code of gate {gate} is {gate}{gate}31"
