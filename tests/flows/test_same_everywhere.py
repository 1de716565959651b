"""Every store gives the same hits and scores, with images and with indexes, and whatever other users store."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.recall.hit import Hits
from tests.engines import LASTING, STORES, Store, make_store, ranking
from tests.exhaustive import choose_size

SUBJECTS = [
    "tea", "coffee", "rain", "music", "bread", "paint", "stone", "river", "garden", "winter", "engine", "letter",
    "pocket", "window", "market", "bridge", "กาแฟเย็น", "東京タワー", "서울에서", "café", "naïve", "straße", "C++",
    "v2.0",
    "XQ7719",
]  # fmt: skip
QUESTIONS = (
    "tea and rain", "music in the garden", "กาแฟ", "東京", "서울", "CAFE", "Strasse", "C++", "xq7719",
    "winter engine pocket window market", "nothing of that at all", "tea tea tea tea", "what was it?",
)  # fmt: skip
# How many memories each other tenant has.
ROWS_OF_OTHERS = choose_size(2000, 5000)


def make_drafts(count: int, seed: int = 7) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    drafts = []
    for number in range(count):
        words = rng.choices(SUBJECTS, k=rng.randint(3, 14))
        drafts.append(
            {
                "text": f"{' '.join(words)} {number}",
                "kind": rng.choice(["fact", "plan", "conversation"]),
                "priority": rng.randint(1, 10),
                "id": f"mem_{rng.getrandbits(40):010x}",
                "aliases": rng.sample(SUBJECTS, k=number % 3),
                "tags": [f"t{number % 3}"],
            }
        )
    drafts.append({"text": " ".join(rng.choices(SUBJECTS, k=3000)), "id": f"mem_long{seed}"})
    return drafts


def fill(engine: Everhold) -> None:
    engine.scope(user="alice").remember_many(make_drafts(300))
    engine.scope().remember_many(make_drafts(40, seed=8))
    engine.scope(user="alice").revise("mem_long7", text=" ".join(SUBJECTS * 60))
    engine.scope(user="alice").forget_where(where={"text": {"contains": "stone 1"}})
    for number, memory in enumerate(engine.scope(user="alice").list(limit=5, oldest_first=True)):
        engine.scope(user="alice").supersede(memory.id, f"superseding tea {number}", id=f"mem_successor{number}")


def collect_answers(view: View, questions: Sequence[str] = QUESTIONS) -> dict[str, Any]:
    def list_results(hits: Hits) -> list[Any]:
        return [
            (hit.memory.id, hit.score, hit.why.contributions, hit.why.similarity, hit.why.matched, hit.tags)
            for hit in hits
        ]  # fmt: skip

    results: dict[str, Any] = {}
    for question in questions:
        results[question] = list_results(view.recall(question, k=25))
        results[question, "nearest"] = list_results(view.recall(question, k=25, minimum=0))
        results[question, "words"] = list_results(view.recall(question, k=25, recipe="words", minimum=1e-6))
        results[question, "plan"] = list_results(view.recall(question, k=25, kind="plan", tags="t1", minimum=0))
        first = view.recall(question, k=5, minimum=0)
        results[question, "next"] = list_results(view.recall(question, k=5, minimum=0, cursor=first.cursor))
    return results


@pytest.fixture
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Store]]:
    stores = {name: make_store(name, request, tmp_path) for name in STORES}
    yield stores
    for store in stores.values():
        store.close()


def test_every_store_gives_the_same_hits(stores: dict[str, Store]) -> None:
    results = {}
    for name, store in stores.items():
        engine = store.open()
        fill(engine)
        reopened = store.open()
        assert collect_answers(engine.scope(user="alice")) == collect_answers(reopened.scope(user="alice"))
        results[name] = [collect_answers(reopened.scope(user="alice")), collect_answers(reopened.scope())]
    sqlite_result = results.pop("sqlite")
    assert sum(len(hits) for hits in sqlite_result[0].values()) > 500
    for name, result in results.items():
        assert result == sqlite_result, name


@pytest.mark.parametrize("name", STORES)
def test_images_and_candidates_give_the_same_hits(stores: dict[str, Store], name: str) -> None:
    large_chunks = {"embedding": {"chunk_tokens": 512}}  # so that all chunks are among those that the indexes propose
    fill(stores[name].open(**large_chunks))
    from_images, from_candidates = (
        stores[name].open(**large_chunks),
        stores[name].open(**large_chunks, images={"max_memories": 0}),
    )
    for scope in ({"user": "alice"}, {}):
        hits = from_candidates.scope(**scope).recall("tea", minimum=0)
        assert hits.approximate
        assert {hit.why.searched for hit in hits} == {"candidates"}
        questions = QUESTIONS if name == "sqlite" else QUESTIONS[:5]
        assert collect_answers(from_candidates.scope(**scope), questions) == collect_answers(
            from_images.scope(**scope), questions
        )


@pytest.mark.parametrize("name", LASTING)
def test_rows_of_other_tenants_do_not_change_scores(stores: dict[str, Store], name: str) -> None:
    """Scores of a tenant do not depend on the number of rows of other tenants."""
    store, questions = stores[name], QUESTIONS[:3]
    engine = store.open()
    fill(engine)
    alice = engine.scope(user="alice")
    reader = store.open(images={"max_memories": 0}).scope(user="alice")
    before = collect_answers(alice), collect_answers(reader, questions)
    others = [{"text": f"tea rain music {n}", "kind": "conversation"} for n in range(ROWS_OF_OTHERS)]
    engine.scope(organization="other", user="alice").remember_many(others)
    engine.scope(user="bob").remember_many(others)
    assert (collect_answers(alice), collect_answers(reader, questions)) == before
    assert collect_answers(store.open().scope(user="alice")) == before[0]


def test_scores_do_not_depend_on_the_position_of_a_row(sqlite_store: Store) -> None:
    """An image that was built at once and one that followed every change give exactly the same scores."""
    growing = sqlite_store.open()
    alice = growing.scope(user="alice")
    rng = random.Random(3)
    for batch in range(6):
        alice.recall("tea")
        alice.remember_many({**item, "id": f"{item['id']}-{batch}"} for item in make_drafts(30, seed=batch))
        for memory in rng.sample(alice.list(limit=1000), 5):
            alice.revise(memory.id, text=f"{memory.text} revised {batch}")
    alice.forget_where(tags="t2")
    assert collect_answers(alice) == collect_answers(sqlite_store.open().scope(user="alice"))


def test_a_small_budget_changes_nothing(sqlite_store: Store) -> None:
    fill(sqlite_store.open())
    limited = sqlite_store.open(images={"megabytes": 1})
    for user in ("u0", "u1", "u2"):
        limited.scope(organization="o", user=user).remember_many(f"tea {number}" for number in range(400))
        limited.scope(organization="o", user=user).recall("tea")
    unlimited = sqlite_store.open()
    assert ranking(limited.scope(user="alice").recall("tea", k=40, minimum=0)) == ranking(
        unlimited.scope(user="alice").recall("tea", k=40, minimum=0)
    )
    assert len(limited._parts.recall_deps.images._entries) < 4


# A scope, arguments of recall, and how many of its memories pass both.
NARROW: list[tuple[dict[str, str], dict[str, Any], int]] = [
    ({"project": "small"}, {}, 2),
    ({"user": "alice", "project": "small"}, {}, 2),
    ({"user": "alice", "session": "s1"}, {"only": "session"}, 2),
    ({"session": "s1"}, {}, 2),
    ({"user": "alice", "session": "s1"}, {"tags": "rare"}, 1),
    ({"agent": "bot"}, {}, 2),
    ({"project": "small"}, {"kind": "plan"}, 1),
    ({"user": "alice"}, {"tags": "rare"}, 1),
    ({"user": "alice"}, {"kind": "vault"}, 1),
    ({"user": "alice"}, {"where": {"metadata.rare": True}}, 1),
    ({}, {"tags": "rare"}, 1),
    ({}, {"tags": ["rare", "never"]}, 0),
    ({"user": "alice"}, {"where": {"user_id": "bob"}}, 0),
]


@pytest.mark.parametrize("name", STORES)
def test_scopes_and_filters_come_before_the_search(stores: dict[str, Store], name: str) -> None:
    """The only memory that passes the filter is found among thousands that fit the question better."""
    engine = stores[name].open()
    better = [{"text": f"tea rain music {n}", "kind": "conversation"} for n in range(1500)]
    engine.scope(user="alice", project="large").remember_many(better)
    engine.scope(user="alice", project="small", session="s1", agent="bot").remember_many(
        [
            {"text": "rain on stone", "kind": "vault", "tags": ["rare"], "metadata": {"rare": True}},
            {"text": "tea under a bridge", "kind": "plan"},
        ]
    )
    from_images, from_candidates = stores[name].open(), stores[name].open(images={"max_memories": 0})
    for scope, arguments, count in NARROW:
        results = [
            engine.scope(**scope).recall("tea rain music", k=5, minimum=0, **arguments)
            for engine in (from_images, from_candidates)
        ]
        assert ranking(results[0]) == ranking(results[1]), (scope, arguments)
        assert len(results[0]) == count, (scope, arguments)
