"""Recall returns the memories that answer and no others, and `why_not` explains the others."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import EmptyQuery, NotFound
from everhold.recall.judging import ONE_AMONG_FEW
from everhold.recall.recipe import HYBRID, Recipe
from tests.engines import Store, texts

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)

# superseded and expired memories


def test_a_successor_is_found_by_what_it_replaced(alice: View) -> None:
    alice.remember_many(["Has two cats", "Went to Chiang Mai in May"])
    old = alice.remember("Drinks coffee with oat milk")
    question = "who drinks coffee with oat milk?"
    assert texts(alice.recall(question)) == ["Drinks coffee with oat milk"]
    successor = alice.supersede(old.id, "Only jasmine now")
    [hit] = alice.recall(question)
    assert (hit.memory.id, hit.memory.text) == (successor.id, "Only jasmine now")
    assert hit.why.contributions["replaced"] > 0
    last = alice.supersede(successor.id, "Water, and nothing else")
    assert [hit.memory.id for hit in alice.recall(question)] == [last.id]
    assert [hit.memory.id for hit in alice.recall("only jasmine")] == [last.id]
    alice.undo(successor.id)
    assert [hit.memory.id for hit in alice.recall(question)] == [successor.id]
    alice.undo(old.id)
    assert texts(alice.recall(question)) == ["Drinks coffee with oat milk"]


def test_a_forgotten_successor_leaves_nothing_behind(alice: View) -> None:
    old = alice.remember("Drinks coffee with oat milk")
    successor = alice.supersede(old.id, "Only jasmine now")
    alice.forget(successor.id)
    assert texts(alice.recall("coffee with oat milk", minimum=0)) == []


@pytest.mark.parametrize(
    "fields",
    [{"expires_at": NOW - HOUR}, {"valid_to": NOW - HOUR}, {"valid_from": NOW + 1000 * HOUR}],
    ids=lambda fields: next(iter(fields)),
)
def test_memories_that_are_not_valid_are_never_returned(alice: View, fields: dict[str, Any]) -> None:
    alice.remember("The parking code is 1234", **fields)
    alice.remember("The parking lot is behind the house")
    for recipe in ("hybrid", "meaning", "words"):
        hits = alice.recall("parking code 1234", recipe=recipe, minimum=0)
        assert texts(hits) == ["The parking lot is behind the house"]


def test_superseded_memories_are_never_returned(alice: View) -> None:
    old = alice.remember("The parking code is 1234")
    alice.supersede(old.id, "The gate opens by itself")
    for recipe in ("hybrid", "meaning", "words"):
        assert texts(alice.recall("parking code 1234", recipe=recipe, minimum=0)) == ["The gate opens by itself"]


# hits that repeat another hit


def test_near_duplicates_are_one_hit(alice: View) -> None:
    variants = [
        "Drinks green tea in the morning",
        "Drinks green tea in the morning!",
        "drinks green tea in the morning",
    ]
    best = alice.remember(variants[0], kind="conversation", priority=9)
    alice.remember_many({"text": text, "kind": "conversation", "priority": 3} for text in variants[1:])
    alice.remember("Drinks green tea in the evening", kind="conversation")
    hits = alice.recall("green tea in the morning", minimum=0)
    assert [hit.memory.id for hit in hits if "morning" in hit.memory.text] == [best.id]
    assert len(hits) == 2, "another time is another thing"
    assert len(alice.recall("green tea in the morning", recipe="meaning")) == 4


def test_a_left_out_duplicate_makes_room_for_another_hit(alice: View) -> None:
    alice.remember_many({"text": "Green tea", "kind": "conversation"} for _ in range(40))
    alice.remember("Green tea and cake")
    assert sorted(texts(alice.recall("green tea", k=2, minimum=0))) == ["Green tea", "Green tea and cake"]


def test_a_fact_and_its_source_message_are_one_hit(alice: View) -> None:
    message = alice.remember("I drink green tea", kind="conversation")
    fact = alice.remember("Alice drinks green tea", kind="fact", provenance={"memory": message.id})
    hits = alice.recall("who drinks green tea?", minimum=0)
    assert len(hits) == 1
    assert hits[0].memory.id in (message.id, fact.id)


# related memories


def test_memories_related_to_an_answer_are_hits_too(alice: View) -> None:
    alice.remember_many(["Has two cats", "Went to Chiang Mai in May"])
    tea = alice.remember("Drinks green tea every morning on the porch")
    cup = alice.remember("A gift from grandmother")
    question = "who drinks green tea every morning on the porch?"
    assert [hit.memory.id for hit in alice.recall(question)] == [tea.id]
    alice.relate(tea.id, cup.id)
    hits = alice.recall(question)
    assert [hit.memory.id for hit in hits] == [tea.id, cup.id]
    assert hits[1].why.contributions["related"] > 0
    assert alice.recall("a gift from grandmother")[0].memory.id == cup.id
    alice.forget(tea.id)
    assert texts(alice.recall(question)) == []


def test_a_memory_that_an_answer_contradicts_is_not_a_hit(alice: View) -> None:
    tea = alice.remember("Drinks green tea every morning on the porch")
    never = alice.remember("A stranger to hot drinks")
    alice.relate(tea.id, never.id, "contradicts")
    assert texts(alice.recall("drinks green tea every morning on the porch")) == [tea.text]


# pinned memories


def test_pinned_memories_are_a_tier_of_their_own(engine: Everhold, alice: View) -> None:
    low = alice.remember("Is allergic to nuts", pinned=True, priority=3)
    high = alice.remember("Speaks Thai", pinned=True, priority=9)
    alice.remember("Was pinned until yesterday", pinned=True, expires_at=NOW - HOUR)
    engine.scope(user="bob").remember("Pinned by Bob", pinned=True)
    tea = alice.remember("Drinks tea")
    hits = alice.recall("drinks tea")
    assert [hit.memory.id for hit in hits] == [tea.id]
    assert [memory.id for memory in hits.pinned] == [high.id, low.id]
    nuts = alice.recall("allergic to nuts")
    assert [hit.memory.id for hit in nuts] == [low.id], "one that answers is a hit too"
    assert [memory.id for memory in alice.recall("zebra").pinned] == [high.id, low.id]
    alice.revise(high.id, pinned=False)
    assert [memory.id for memory in alice.recall("drinks tea").pinned] == [low.id]


# why not


def get_reason(view: View, memory_id: str, question: str, **arguments: Any) -> str:
    explanation = view.why_not(memory_id, question, **arguments)
    assert not explanation.returned
    assert explanation.memory.id == memory_id
    assert memory_id not in {hit.memory.id for hit in view.recall(question, **arguments)}
    return explanation.reasons[0]


def test_why_not_explains_invalid_memories(alice: View) -> None:
    expired = alice.remember("Tea one", expires_at=datetime(2020, 5, 1, 9, 30, tzinfo=UTC))
    early = alice.remember("Tea two", valid_from=datetime(2990, 5, 1, tzinfo=UTC))
    late = alice.remember("Tea three", valid_to=datetime(2020, 5, 1, tzinfo=UTC))
    old = alice.remember("Tea four")
    successor = alice.supersede(old.id, "Tea five")
    assert get_reason(alice, expired.id, "tea") == "it expired on 2020-05-01 09:30 UTC"
    assert get_reason(alice, early.id, "tea") == "it holds only from 2990-05-01 00:00 UTC"
    assert get_reason(alice, late.id, "tea") == "it held only until 2020-05-01 00:00 UTC"
    assert get_reason(alice, old.id, "tea").startswith(f"it was replaced by {successor.id} on ")
    assert get_reason(alice, successor.id, "tea", as_of=NOW - HOUR).startswith("it was stored only on ")
    assert alice.why_not(expired.id, "tea").score is None


def test_why_not_explains_filtered_memories(alice: View) -> None:
    memory = alice.remember("Tea", kind="fact", tags=["a"])
    assert get_reason(alice, memory.id, "tea", kind="plan") == "the filter excludes it"
    assert get_reason(alice, memory.id, "tea", where={"importance": {">": 0.9}}) == "the filter excludes it"
    assert get_reason(alice, memory.id, "tea", tags=["a", "b"]) == "it does not have all of the tags a, b"
    assert alice.why_not(memory.id, "tea", kind="fact", tags="a").returned


def test_why_not_explains_low_scores(alice: View) -> None:
    near = alice.remember("Tea and cake with Mia on the porch")
    far = alice.remember("The engine of the boat is broken")
    question = "tea and cake with Mia on the porch"
    explanation = alice.why_not(far.id, question)
    assert explanation.reasons == (
        f"its score {explanation.score:.3f} is below the minimum of {ONE_AMONG_FEW.minimum:.3f}",
    )
    assert explanation.place == 2
    assert explanation.winner is not None
    assert (explanation.winner.memory.id, explanation.behind) == (
        near.id,
        pytest.approx(explanation.winner.score - explanation.score),
    )
    assert explanation.admitted_by.keys() == {"minimum"}
    assert far.id in {hit.memory.id for hit in alice.recall(question, **explanation.admitted_by)}
    assert explanation.why is not None
    assert HYBRID.score(explanation.why.base + sum(explanation.why.contributions.values())) == pytest.approx(
        explanation.score, abs=1e-5
    )
    assert get_reason(alice, far.id, question, minimum=0.9).endswith("is below the minimum of 0.900")
    of_best_hit = alice.why_not(near.id, question)
    assert (of_best_hit.returned, of_best_hit.reasons, of_best_hit.place) == (True, ("it came back, at place 1",), 1)
    assert of_best_hit.score == alice.recall(question)[0].score


def test_why_not_explains_scores_far_below_the_best(alice: View) -> None:
    strict = Recipe("strict", {"words.own": 1.0}, minimum=0.1, share=0.8)
    near, middle = alice.remember("Tea and cake on the porch"), alice.remember("Tea and cake somewhere")
    reason = get_reason(alice, middle.id, "tea and cake on the porch", recipe=strict)
    assert reason.endswith("is below 80% of the best, which has 1.000")
    alice.forget(near.id)
    assert alice.why_not(middle.id, "tea and cake", recipe=strict).returned, "now it is the best"


def test_why_not_explains_ranks_beyond_k(alice: View) -> None:
    first, second, third = (alice.remember(text) for text in ("tea", "tea cup", "tea cup and a long spoon"))
    arguments: dict[str, Any] = {"k": 2, "minimum": 0.0}
    assert [hit.memory.id for hit in alice.recall("tea", **arguments)] == [first.id, second.id]
    assert get_reason(alice, third.id, "tea", **arguments) == "it is at place 3, and 2 were asked for"
    assert alice.why_not(third.id, "tea", **arguments).admitted_by == {"k": 3}
    admitted_by = alice.why_not(third.id, "tea", k=2, minimum=0.999).admitted_by
    assert admitted_by.keys() == {"k", "minimum"}
    assert third.id in {hit.memory.id for hit in alice.recall("tea", **admitted_by)}
    twin = alice.remember("Tea cup", kind="conversation")
    assert get_reason(alice, twin.id, "tea", k=10, minimum=0.0) == "a better hit says the same"
    assert alice.why_not(twin.id, "tea", k=10, minimum=0.0).admitted_by == {}


def test_why_not_explains_memories_that_cannot_be_scored(alice: View) -> None:
    memory = alice.remember(content={"tea": 1})
    alice.remember("Tea")
    assert get_reason(alice, memory.id, "tea", minimum=0.0) == "it was not among the 1 that could be scored"


def test_why_not_explains_candidates_of_the_stores_indexes(store: Store) -> None:
    store.open().scope(user="alice").remember("Tea on the porch", id="mem_tea")
    reader = store.open(images={"max_memories": 0}).scope(user="alice")
    explanation = reader.why_not("mem_tea", "engine of the boat")
    assert "is below the minimum" in explanation.reasons[0]
    assert explanation.why is not None
    assert explanation.why.searched == "candidates"
    assert reader.why_not("mem_tea", "tea on the porch").returned


def test_why_not_works_only_for_memories_of_the_scope(engine: Everhold, alice: View) -> None:
    bobs_memory = engine.scope(user="bob").remember("Tea of Bob")
    for name in (bobs_memory.id, "nothing"):
        with pytest.raises(NotFound):
            alice.why_not(name, "tea")
    memory = alice.remember("Tea")
    with pytest.raises(EmptyQuery):
        alice.why_not(memory.id, "  ")


def test_a_speaker_without_a_name_is_accepted(alice: View) -> None:
    alice.remember("Tea at five", speaker="\u0301")
    alice.remember("Tea at six", speaker=" ")
    assert len(alice.recall("tea", minimum=0)) == 2


# with the real model


@pytest.fixture(scope="module")
def model_view() -> Iterator[View]:
    with Everhold.open("memory://") as engine:
        view = engine.scope(user="alice")
        view.remember_many(
            [
                "Prefers backend work over design",
                "Has two cats named Miso and Nori",
                "Is allergic to peanuts",
                "Plays the cello on Sundays",
                "Grew up in Lisbon",
            ]
        )
        desk = view.remember("Her desk is on the fourth floor, next to the window")
        view.supersede(desk.id, "She sits in the basement now")
        yield view


@pytest.mark.model
@pytest.mark.parametrize(
    "question",
    [
        "What is the boiling point of mercury?",
        "Who won the election in Peru?",
        "How do I reverse a linked list?",
        "Which train goes to the airport?",
    ],
)
def test_an_unrelated_question_is_answered_by_nothing(model_view: View, question: str) -> None:
    assert texts(model_view.recall(question)) == []
    assert len(model_view.recall(question, minimum=0)) == 6


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is she allergic to?", "Is allergic to peanuts"),
        ("Which nuts must be avoided?", "Is allergic to peanuts"),
        ("Does she play an instrument?", "Plays the cello on Sundays"),
        ("Where did she grow up?", "Grew up in Lisbon"),
        ("Which floor is her desk on?", "She sits in the basement now"),
    ],
)
def test_a_related_question_is_answered_by_one_memory(model_view: View, question: str, answer: str) -> None:
    assert texts(model_view.recall(question)) == [answer]
