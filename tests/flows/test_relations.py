"""Relations between memories, and tags on them."""

import pytest

from everhold import Everhold, View
from everhold.errors import InvalidInput, NotFound
from tests.engines import Store, read_all_rows


def test_relations_are_followed_by_direction_type_and_depth(alice: View) -> None:
    memory_a, memory_b, memory_c, memory_d, memory_e = (alice.remember(name) for name in "abcde")
    alice.relate(memory_a.id, memory_b.id, "derived_from", metadata={"why": "test"})
    alice.relate(memory_c.id, memory_b.id, "contradicts")
    alice.relate(memory_c.id, memory_d.id, "derived_from")
    alice.relate(memory_d.id, memory_a.id, "derived_from")
    alice.relate(memory_d.id, memory_e.id, "my_own_type")

    def walk(start: str, **options: object) -> list[tuple[str, int]]:
        return sorted((relation.memory.text, relation.depth) for relation in alice.relations(start, **options))  # type: ignore[arg-type]

    assert walk(memory_a.id) == [("b", 1), ("d", 1)]
    assert walk(memory_a.id, depth=2) == [("b", 1), ("c", 2), ("d", 1), ("e", 2)]
    assert walk(memory_e.id, depth=2) == [("a", 2), ("c", 2), ("d", 1)]
    assert walk(memory_e.id, depth=10) == [("a", 2), ("b", 3), ("c", 2), ("d", 1)]
    assert walk(memory_a.id, depth=3, relationship_type="derived_from") == [("b", 1), ("c", 2), ("d", 1)]
    assert walk(memory_a.id, relationship_type="contradicts") == []
    [first] = alice.relations(memory_a.id, relationship_type="derived_from")[:1]
    assert [relation.depth for relation in alice.relations(memory_e.id, depth=3)] == [1, 2, 2, 3]
    link = next(relation.relationship for relation in alice.relations(memory_a.id) if relation.memory.id == memory_b.id)
    assert (link.source_memory_id, link.target_memory_id, link.metadata) == (memory_a.id, memory_b.id, {"why": "test"})
    assert first.memory.id in (memory_b.id, memory_d.id)


def test_relating_twice_is_relating_once(engine: Everhold, alice: View) -> None:
    memory_a, memory_b = alice.remember("a", key="ka"), alice.remember("b", key="kb")
    first = alice.relate("ka", "kb")
    before = read_all_rows(engine)
    assert alice.relate(memory_a.id, memory_b.id) == first
    assert read_all_rows(engine) == before
    assert alice.relate(memory_b.id, memory_a.id).id != first.id
    assert alice.relate(memory_a.id, memory_b.id, "reply_to").id != first.id


@pytest.mark.parametrize("depth", [0, 11, -1])
def test_depth_is_bounded(sqlite_store: Store, depth: int) -> None:
    alice = sqlite_store.open().scope(user="alice")
    memory = alice.remember("a")
    with pytest.raises(InvalidInput, match=f"depth is {depth}; pass a whole number from 1 to 10"):
        alice.relations(memory.id, depth=depth)


def test_invalid_relations_are_refused(engine: Everhold, alice: View) -> None:
    memory_a, memory_b = alice.remember("a"), alice.remember("b")
    bobs_memory = engine.scope(user="bob").remember("his")
    before = read_all_rows(engine)["memory_relationships"]
    with pytest.raises(InvalidInput, match="cannot be related to itself"):
        alice.relate(memory_a.id, memory_a.id)
    for source, target in (
        (memory_a.id, "nothing"),
        ("nothing", memory_a.id),
        (memory_a.id, bobs_memory.id),
        (bobs_memory.id, memory_a.id),
    ):
        with pytest.raises(NotFound, match=r"no memory '.*' in scope .*; list\(\) shows what is there"):
            alice.relate(source, target)
    with pytest.raises(InvalidInput, match="relationship_type"):
        alice.relate(memory_a.id, memory_b.id, "x" * 33)
    assert read_all_rows(engine)["memory_relationships"] == before


def test_relations_through_a_memory_of_another_user_are_not_followed(engine: Everhold, alice: View) -> None:
    """A user sees no relation between two memories that only a memory of another user links."""
    mine, his, far = alice.remember("mine"), engine.scope(user="bob").remember("his"), alice.remember("far")
    everything = engine.scope()
    everything.relate(mine.id, his.id)
    everything.relate(his.id, far.id)
    assert [relation.memory.text for relation in everything.relations(mine.id, depth=2)] == ["his", "far"]
    assert alice.relations(mine.id, depth=5) == []


def test_tags_are_added_removed_and_counted(engine: Everhold, alice: View) -> None:
    memory_a, memory_b = alice.remember("a", tags=["x", " y "]), alice.remember("b", tags="x", key="kb")
    engine.scope(user="bob").remember("c", tags=["x", "z"])
    assert alice.tags() == {"x": 2, "y": 1}
    assert engine.scope().tags() == {"x": 3, "y": 1, "z": 1}
    assert alice.tag("kb", "y", "ภาษาไทย") == ("x", "y", "ภาษาไทย")
    assert alice.tag(memory_b.id, "y") == ("x", "y", "ภาษาไทย")
    assert alice.untag(memory_b.id, "x", "not there") == ("y", "ภาษาไทย")
    assert alice.tags_of([memory_a.id, memory_b.id, "nothing"]) == {
        memory_a.id: ("x", "y"),
        memory_b.id: ("y", "ภาษาไทย"),
    }
    assert {hit.memory.id for hit in alice.recall("a b", tags="y", minimum=0)} == {memory_a.id, memory_b.id}
    assert [memory.id for memory in alice.list(tags="ภาษาไทย")] == [memory_b.id]


@pytest.mark.parametrize("tag", ["", "  ", "x" * 65, "a\x00", "\ud800"])
def test_an_invalid_tag_is_refused(sqlite_store: Store, tag: str) -> None:
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    memory = alice.remember("a", tags=["t" * 64])
    before = read_all_rows(engine)
    with pytest.raises(InvalidInput):
        alice.tag(memory.id, "good", tag)
    with pytest.raises(InvalidInput):
        alice.remember("b", tags=["good", tag])
    after = read_all_rows(engine)
    assert after.pop("memory_access_logs") != before.pop("memory_access_logs")
    assert after == before


def test_relevance_is_passed_on_among_candidates_too(store: Store) -> None:
    """A scope too large for an image is searched through indexes. Related memories score the same in both."""
    alice = store.open().scope(user="alice")
    hit = alice.remember("The harbour café serves cardamom buns")
    related = alice.remember("Opens at seven, closed on Mondays")
    alice.remember_many(f"A note about matter {number}" for number in range(20))
    alice.relate(hit.id, related.id)
    answers = [
        [(hit.id, hit.score, hit.why.contributions) for hit in view.recall("harbour café cardamom", minimum=0)]
        for view in (alice, store.open(images={"max_memories": 0}).scope(user="alice"))
    ]
    assert answers[0] == answers[1]
    [contributions] = [contributions for memory_id, _, contributions in answers[0] if memory_id == related.id]
    assert contributions["related"] > 0


def test_relevance_passes_from_the_source_to_the_target_only(sqlite_store: Store) -> None:
    alice = sqlite_store.open().scope(user="alice")
    source = alice.remember("The harbour café serves cardamom buns")
    target = alice.remember("Opens at seven, closed on Mondays")
    alice.relate(source.id, target.id)

    def list_gains(question: str) -> dict[str, float]:
        return {hit.id: hit.why.contributions.get("related", 0.0) for hit in alice.recall(question, minimum=0)}

    assert list_gains("harbour café cardamom")[target.id] > 0
    assert list_gains("open at seven, closed on Mondays?")[source.id] == 0
    # Each deletion hides the relationship. Undoing the second deletion restores it, and the image must follow.
    for memory in (target, source):
        alice.forget(memory.id)
        alice.recall("café", minimum=0)
    for memory in (source, target):
        alice.undo(memory.id)
        alice.recall("café", minimum=0)
    assert list_gains("harbour café cardamom")[target.id] > 0
