"""A write is repeated with its idempotency key, or a message with its id, after other writes in between."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import AlreadyExists, Conflict, IdempotencyMismatch, NotFound
from everhold.model import Memory
from everhold.model.memory import KINDS
from tests.engines import Store
from tests.exhaustive import choose_size

TEXT = "Every morning Anna drinks a large cup of green tea on the balcony of her flat"
TEXT_REWORDED = "Every morning Anna really drinks a large cup of green tea on the balcony of her flat"
# Each change is tried on a fourth of the kinds, and each kind after several changes. `make contract` tries all pairs.
KIND_STEP = choose_size(4, 1)


def merge(view: View, memory: Memory) -> None:
    view.remember(TEXT_REWORDED, kind=memory.kind, priority=9)
    view.merge_duplicates()


CHANGES: dict[str, Callable[[View, Memory], object]] = {
    "nothing": lambda view, memory: None,
    "other writes": lambda view, memory: view.remember_many(["One", "Two"]),
    "revise": lambda view, memory: view.revise(memory.id, text="Anna drinks coffee"),
    "revise its kind": lambda view, memory: view.revise(memory.id, kind="plan", priority=9),
    "forget": lambda view, memory: view.forget(memory.id),
    "supersede": lambda view, memory: view.supersede(memory.id, "Anna drinks nothing"),
    "merge": merge,
    "tag": lambda view, memory: view.tag(memory.id, "drink"),
    "undo": lambda view, memory: (view.forget(memory.id), view.undo(memory.id)),
}


@pytest.mark.parametrize("is_batch", [False, True], ids=["one", "many"])
def test_a_retry_by_key_returns_what_is_stored(engine: Everhold, is_batch: bool) -> None:
    """Each of CHANGES comes before the retry, with and without an id of the caller, on some of the kinds."""
    numbers = itertools.count()
    tried: set[tuple[bool, str, str]] = set()
    for case, (has_own_id, (name, change)) in enumerate(itertools.product((False, True), CHANGES.items())):
        for kind in KINDS[case % KIND_STEP :: KIND_STEP]:
            number = next(numbers)
            view = engine.scope(user=f"user-{number}")
            item = {
                "text": TEXT,
                "kind": kind,
                "idempotency_key": "k",
                **({"id": f"own-{number}"} if has_own_id else {}),
            }

            def write(view: View = view, item: dict[str, Any] = item) -> Memory:
                return view.remember_many([item, "Something else"])[0] if is_batch else view.remember(**item)

            first = write()
            change(view, first)
            count = len(view.list(limit=100))
            before = engine._parts.records.get(Memory, "default", [first.id], deleted=True)[first.id]
            repeated = write()
            assert repeated == before, (kind, name, has_own_id)
            assert len(view.list(limit=100)) == count
            tried.add((has_own_id, name, kind))
    assert {(has_own_id, name) for has_own_id, name, _ in tried} == set(itertools.product((False, True), CHANGES))
    assert {kind for *_, kind in tried} == set(KINDS)
    assert KIND_STEP > 1 or len(tried) == 2 * len(CHANGES) * len(KINDS)


def test_a_retry_in_a_batch_does_not_supersede_the_rest_of_the_batch(alice: View) -> None:
    first = alice.remember("I live in Lisbon", idempotency_key="once", id="own")
    memories = alice.remember_many(
        ["I live in Porto", {"text": "I live in Lisbon", "idempotency_key": "once", "id": "own"}]
    )
    assert memories[1].id == first.id
    assert alice.get("own").superseded_by == memories[0].id


def test_a_retry_of_what_was_purged_is_refused(alice: View) -> None:
    for fields in ({}, {"id": "own"}):
        item: dict[str, Any] = {"text": "Gone", "idempotency_key": f"k{len(fields)}", **fields}
        alice.forget(alice.remember(**item).id, hard=True)
        with pytest.raises(NotFound, match="has been purged; use a new key"):
            alice.remember(**item)


def test_a_supersession_is_repeated_by_its_key(alice: View) -> None:
    old = alice.remember("Anna drinks tea")
    successor = alice.supersede(old.id, "Anna drinks coffee", idempotency_key="k", id="own")
    assert alice.supersede(old.id, "Anna drinks coffee", idempotency_key="k", id="own") == successor
    alice.forget(successor.id)
    repeated = alice.supersede(old.id, "Anna drinks coffee", idempotency_key="k", id="own")
    assert (repeated.id, repeated.is_deleted) == (successor.id, True)


# keys belong to one user


def test_idempotency_keys_of_different_scopes_are_separate(any_store: Store) -> None:
    engine = any_store.open()
    views = [
        engine.scope(user="alice"),
        engine.scope(user="bob"),
        engine.scope(),
        engine.scope(agent="bot", user="carol"),
    ]
    memories = [view.remember(f"Paid by {number}", idempotency_key="payment") for number, view in enumerate(views)]
    assert len({memory.id for memory in memories}) == len(views)
    for number, view in enumerate(views):
        view.remember("Something else")
        assert view.remember(f"Paid by {number}", idempotency_key="payment") == memories[number]
        with pytest.raises(IdempotencyMismatch):
            view.remember("Paid by nobody", idempotency_key="payment")
    assert engine.scope(user="dora").remember("Paid by 0", idempotency_key="payment").id not in {
        memory.id for memory in memories
    }


# messages


def test_a_message_said_again_with_its_own_id_is_a_retry(any_store: Store) -> None:
    chat = any_store.open().scope(user="alice", agent="bot", session="s1")
    fields: dict[str, Any] = {"text": "Tea?", "id": "m1", "metadata": {"n": 1}, "content": [{"a": [1, None]}]}
    first = chat.say(**fields)
    chat.say("Another one")
    assert chat.say(**fields) == first
    chat.end_session()
    assert chat.say(**fields) == first
    with pytest.raises(Conflict, match="has ended"):
        chat.say("New", id="m2")
    assert len(chat.messages()) == 2


def test_the_id_of_another_message_is_refused(engine: Everhold) -> None:
    chat = engine.scope(user="alice", session="s1")
    chat.say("Tea?", id="m1")
    others = [chat, engine.scope(user="alice", session="s2"), engine.scope(user="bob", session="s3")]
    refusals = set()
    for number, view in enumerate(others):
        with pytest.raises(AlreadyExists) as caught:
            view.say("Tea?" if number else "Coffee?", id="m1")
        refusals.add(str(caught.value))
    assert refusals == {"message id 'm1' is taken by another message; choose another, or leave it out"}


# in one batch


def test_the_same_item_twice_in_a_batch_is_one_memory(alice: View) -> None:
    for number, kind in enumerate(("fact", "conversation")):
        item = {"text": "Same", "kind": kind, "id": f"own-{number}", "idempotency_key": f"k{number}"}
        memories = alice.remember_many([{**item, "tags": ["a"]}, {**item, "tags": ["b"]}, "Between"])
        assert [memory.id for memory in memories[:2]] == [f"own-{number}"] * 2
        assert alice.tags_of([f"own-{number}"]) == {f"own-{number}": ("a", "b")}
        with pytest.raises(AlreadyExists):
            alice.remember_many([{**item, "id": "x"}, {"text": "Other", "kind": kind, "id": "x"}])


def test_a_batch_may_repeat_one_text_and_replace_another(alice: View) -> None:
    alice.remember("I live in Paris")
    alice.remember_many([{"text": "I live in Paris", "priority": 9}, "I live in Rome"])
    assert {memory.text: memory.superseded_by is None for memory in alice.list()} == {
        "I live in Paris": False,
        "I live in Rome": True,
    }


def test_the_highest_importance_of_a_batch_is_kept(alice: View) -> None:
    first = alice.remember("Tea is good")
    alice.remember_many([{"text": "Tea is good", "priority": 9}, {"text": "Tea is good", "priority": 7}])
    assert (alice.get(first.id).priority, alice.get(first.id).access_count) == (9, 2)
