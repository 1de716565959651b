"""Vectors that callers bring, and models kept beside the first one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everhold import Everhold, View, clock
from everhold.adapters.chroma import ChromaVectors
from everhold.errors import EmptyQuery, InvalidInput, ModelUnavailable, NotFound
from everhold.model import Chunk
from everhold.model.vectors import Vector
from everhold.schema.operations import Op, Where
from everhold.testing.fake_embedder import FakeEmbedder
from tests.chroma_store import SECONDS as CHROMA_SECONDS
from tests.engines import Store, texts
from tests.unit.test_caller_embedder import HOSTILE_VECTORS

FIRST = FakeEmbedder("first", 32)
SECOND = FakeEmbedder("second", 48)
SECONDS = 30


def make_axis_vector(number: int, dimensions: int = 32) -> list[float]:
    """Return a vector along one axis. No text has such a vector."""
    return [1.0 if index == number else 0.0 for index in range(dimensions)]


def get_vectors(view: View, memory_id: str, model: str = "first", *, current: bool = True) -> list[Any]:
    where = [Where("owner_id", Op.EQ, memory_id), Where("model", Op.EQ, model)]
    where += [Where("known_to", Op.EQ, None)] if current else []
    chunks = view._parts.records.scan(Chunk, view.scope.organization, where)
    return [None if chunk.vector is None else np.frombuffer(chunk.vector, "<f2").tolist() for chunk in chunks]


def embed_text(text: str, embedder: FakeEmbedder = FIRST) -> list[Any]:
    return [vector.tolist() for vector in embedder.embed([text]) if vector is not None]


def find_nearest(view: View, vector: Any, **options: Any) -> str:
    return view.recall("", k=1, vector=vector, minimum=0, recipe="meaning", **options)[0].memory.id


class ColourBlindEmbedder(FakeEmbedder):
    """An embedder that gives "red" the vector of "green", so that its answers differ from those of other models."""

    def embed(self, texts: Any) -> list[Vector | None]:
        return super().embed(["green" if text == "red" else text for text in texts])


class TestOwnVectors:
    def test_own_vectors_are_stored_found_and_kept(self, any_store: Store, tmp_path: Path) -> None:
        engine = any_store.open(FIRST)
        alice = engine.scope(user="alice")
        plain = alice.remember("Reads by the window")
        first = alice.remember("Prefers green tea", vector=make_axis_vector(1))
        second, third = alice.remember_many(
            [
                {"text": "Walks in the rain", "vector": np.array(make_axis_vector(2)) * 7},
                {"text": "Long " * 2000, "vector": {"first": make_axis_vector(3)}},
            ]
        )
        assert get_vectors(alice, first.id) == [make_axis_vector(1)]
        assert get_vectors(alice, plain.id) == embed_text("Reads by the window")
        assert len(get_vectors(alice, third.id)) > 1
        for number, memory in enumerate((first, second, third), 1):
            assert find_nearest(alice, make_axis_vector(number)) == memory.id
        matched = {
            hit.memory.id: hit.why.matched for hit in alice.recall("green tea", vector=make_axis_vector(2), minimum=0)
        }
        assert matched[first.id] == ("green", "tea"), "words still count"
        successor = alice.supersede(second.id, "Walks in the snow", vector=make_axis_vector(4))
        assert find_nearest(alice, make_axis_vector(4)) == successor.id

        alice.revise(first.id, aliases=["cha"])
        assert get_vectors(alice, first.id) == [make_axis_vector(1)], "its text is the same"
        alice.revise(first.id, text="Prefers black coffee")
        assert get_vectors(alice, first.id) == embed_text("Prefers black coffee")
        alice.undo(first.id)
        assert get_vectors(alice, first.id) == [make_axis_vector(1)]
        alice.revise(first.id, vector=make_axis_vector(5))
        assert (get_vectors(alice, first.id), alice.get(first.id).text) == ([make_axis_vector(5)], "Prefers green tea")
        assert alice.get(first.id).aliases == ["cha"]
        alice.undo(first.id)
        assert get_vectors(alice, first.id) == [make_axis_vector(1)]
        assert find_nearest(alice, make_axis_vector(1)) == first.id

        engine.export(tmp_path / "bundle.jsonl")
        engine.load(tmp_path / "bundle.jsonl", organization="copy")
        copy = engine.scope(organization="copy", user="alice")
        assert get_vectors(copy, first.id, current=False) == get_vectors(alice, first.id, current=False)
        assert find_nearest(copy, make_axis_vector(1)) == first.id

    def test_a_large_scope_is_searched_by_own_vectors(self, store: Store) -> None:
        alice = store.open(FIRST, images={"max_memories": 0}).scope(user="alice")
        alice.remember_many(f"note {number} about tea" for number in range(30))
        memory = alice.remember("Prefers green tea", vector=make_axis_vector(1))
        hits = alice.recall("", vector=make_axis_vector(1), minimum=0, k=1)
        assert [hit.memory.id for hit in hits] == [memory.id]
        assert hits[0].why.searched == "candidates"
        assert hits[0].why.similarity == 1.0

    def test_the_same_text_keeps_its_first_vector(self, sqlite_store: Store) -> None:
        alice = sqlite_store.open(FIRST).scope(user="alice")
        first = alice.remember("Prefers green tea", vector=make_axis_vector(1), idempotency_key="k")
        assert alice.remember("prefers green tea", vector=make_axis_vector(2)).id == first.id
        assert alice.remember("Prefers green tea", vector=make_axis_vector(3), idempotency_key="k").id == first.id
        assert get_vectors(alice, first.id) == [make_axis_vector(1)]

    def test_own_vectors_survive_a_merge(self, sqlite_store: Store) -> None:
        alice = sqlite_store.open(FIRST).scope(user="alice")
        memory = alice.remember("Prefers the green tea", vector=make_axis_vector(1), pinned=True)
        other = alice.remember("Prefers green tea", vector=make_axis_vector(1), aliases=["cha"])
        assert alice.merge_duplicates().count == 1
        assert get_vectors(alice, memory.id) == [make_axis_vector(1)]
        alice.forget(other.id, hard=True)
        assert get_vectors(alice, memory.id) == [make_axis_vector(1)], "purging takes out the alias, and nothing else"

    def test_the_past_is_searched_by_its_own_vectors(self, sqlite_store: Store) -> None:
        alice = sqlite_store.open(FIRST).scope(user="alice")
        memory = alice.remember("Prefers green tea", vector=make_axis_vector(1))
        before = clock.now()
        alice.revise(memory.id, vector=make_axis_vector(2))
        [hit] = alice.recall("", vector=make_axis_vector(1), minimum=0, recipe="meaning", as_of=before)
        assert (hit.memory.id, hit.why.similarity) == (memory.id, 1.0)

    def test_after_a_change_of_model_the_text_is_embedded(self, sqlite_store: Store) -> None:
        engine = sqlite_store.open(FIRST)
        memory = engine.scope().remember("Prefers green tea", vector=make_axis_vector(1))
        engine.close()
        engine = sqlite_store.open(SECOND)
        reembedding = engine._parts.reembedding
        assert reembedding is not None
        assert reembedding.wait(SECONDS)
        assert get_vectors(engine.scope(), memory.id, "second") == embed_text("Prefers green tea", SECOND)
        assert get_vectors(engine.scope(), memory.id, "first") == []

    @pytest.mark.parametrize("name", HOSTILE_VECTORS)
    def test_hostile_vectors_are_refused_by_name(self, module_view: View, name: str) -> None:
        vector = HOSTILE_VECTORS[name]
        memory = module_view.remember("Prefers green tea")
        for call in (
            lambda: module_view.remember("Likes rain", vector=vector),
            lambda: module_view.remember_many([{"text": "Likes rain", "vector": {"eight": vector}}]),
            lambda: module_view.revise(memory.id, vector=vector),
            lambda: module_view.supersede(memory.id, "Likes rain", vector=vector),
            lambda: module_view.recall("rain", vector=vector),
            lambda: module_view.why_not(memory.id, "rain", vector=vector),
        ):
            with pytest.raises(InvalidInput, match="vector"):
                call()
        assert list_texts(module_view) == ["Prefers green tea"]

    def test_misplaced_vectors_are_refused_by_name(self, module_view: View) -> None:
        vector = make_axis_vector(1, 8)
        with pytest.raises(InvalidInput, match="for unknown model 'other'; choose from eight"):
            module_view.remember("Likes rain", vector={"other": vector})
        with pytest.raises(InvalidInput, match="vector is for model 5"):
            module_view.remember("Likes rain", vector={5: vector})  # type: ignore[dict-item]
        with pytest.raises(InvalidInput, match="a vector, but no text"):
            module_view.remember(content={"a": 1}, vector=vector)
        with pytest.raises(InvalidInput, match="no embedding model 'other' here; use one of 'eight'"):
            module_view.recall("rain", model="other")
        with pytest.raises(EmptyQuery):
            module_view.recall(" ")


@pytest.fixture(scope="module")
def module_view() -> Iterator[View]:
    with Everhold.open("memory://", embedder=FakeEmbedder("eight", 8)) as engine:
        yield engine.scope(user="alice")


def list_texts(view: View) -> list[str]:
    return [memory.text for memory in view.list()]


class TestModelBesideTheFirst:
    def test_a_store_with_memories_is_filled_and_searched_by_both_models(self, any_store: Store) -> None:
        second = ColourBlindEmbedder("second", 48)
        engine = any_store.open(FIRST)
        old_memory = engine.scope(user="alice").remember("red apples")
        engine.scope(user="alice").revise(old_memory.id, aliases=["fruit"])
        engine.scope(organization="other").remember("nuts")
        engine.close()

        engine = any_store.open(FIRST, also=[second])
        assert engine._parts.beside["second"].filling.wait(SECONDS)
        alice = engine.scope(user="alice")
        new_memory = alice.remember("green pears", vector={"first": embed_text("green pears")[0]})
        for name, expected in ((None, "red apples"), ("first", "red apples"), ("second", "green pears")):
            hits = alice.recall("red", model=name, minimum=0, recipe="meaning")
            assert texts(hits)[0] == expected, name
            assert len(hits) == 2
        assert alice.recall("fruit", model="second")[0].memory.id == old_memory.id
        assert engine.scope(organization="other").recall("nuts", model="second")
        assert get_vectors(alice, new_memory.id, "second") == embed_text("green pears", second)
        vector = second.embed(["red"])[0]
        assert find_nearest(alice, vector, model="second") == new_memory.id
        with pytest.raises(InvalidInput, match="48 numbers, and its model has 32 dimensions"):
            alice.recall("red", vector=vector)

    def test_a_bundle_contains_the_vectors_of_both_models(self, store: Store, tmp_path: Path) -> None:
        engine = store.open(FIRST, also=[ColourBlindEmbedder("second", 48)])
        alice = engine.scope(user="alice")
        alice.remember_many(["red apples", "green pears"])
        engine.export(tmp_path / "bundle.jsonl")
        engine.load(tmp_path / "bundle.jsonl", organization="copy")
        report = engine.doctor()
        assert (report.parts["beside: second"], list(report.problems)) == ("48 dimensions, complete", [])
        copy = engine.scope(organization="copy", user="alice")
        for name in ("first", "second"):
            assert [hit.score for hit in copy.recall("red", model=name, minimum=0)] == [
                hit.score for hit in alice.recall("red", model=name, minimum=0)
            ]

    def test_a_bundle_of_another_model_is_embedded(self, sqlite_store: Store, tmp_path: Path) -> None:
        engine = sqlite_store.open(FIRST, also=[SECOND])
        memory = engine.scope(user="alice").remember("Prefers green tea", vector=make_axis_vector(1))
        before = clock.now()
        engine.scope(user="alice").revise(memory.id, text="Prefers black coffee")
        engine.export(tmp_path / "bundle.jsonl")
        with Everhold.open("memory://", embedder=FakeEmbedder("third", 24), also=[SECOND]) as other_engine:
            other_engine.scope(user="alice").remember("Likes rain")
            assert other_engine.scope(user="alice").recall("likes rain"), "an image is in use before the import"
            assert other_engine.load(tmp_path / "bundle.jsonl").embedded == 1
            assert other_engine.load(tmp_path / "bundle.jsonl").embedded == 0
            for model in ("second", "third"):
                assert other_engine.scope(user="alice").recall("black coffee", model=model)[0].memory.id == memory.id
                assert other_engine.scope(user="alice").recall("green tea", model=model, as_of=before)
        assert engine.load(tmp_path / "bundle.jsonl", organization="copy").embedded == 0

    def test_a_large_scope_is_searched_by_the_second_model(self, store: Store) -> None:
        second = ColourBlindEmbedder("second", 48)
        engine = store.open(FIRST, also=[second], images={"max_memories": 0})
        alice = engine.scope(user="alice")
        alice.remember_many(["red apples", "green pears", *(f"note {number}" for number in range(20))])
        for name, expected in (("first", "red apples"), ("second", "green pears")):
            [hit] = alice.recall("red", model=name, minimum=0, recipe="meaning", k=1)
            assert (hit.memory.text, hit.why.searched) == (expected, "candidates")

    def test_each_model_has_its_own_collection_in_chroma(self, sqlite_store: Store, tmp_path: Path) -> None:
        engine = sqlite_store.open(
            FIRST,
            also=[ColourBlindEmbedder("second", 48)],
            images={"max_memories": 0},
            vectors=f"chroma:///{tmp_path / 'chroma'}",
        )
        chroma = engine._parts.recall_deps.candidates.vectors
        assert isinstance(chroma, ChromaVectors)
        assert chroma.wait(CHROMA_SECONDS)
        alice = engine.scope(user="alice")
        alice.remember_many(["red apples", "green pears", *(f"note {number}" for number in range(20))])
        for name, expected in (("first", "red apples"), ("second", "green pears")):
            assert texts(alice.recall("red", model=name, minimum=0, recipe="meaning", k=1)) == [expected]
        collections = [line for line in engine.doctor().parts.values() if "lines behind" in line]
        assert len(collections) == 2
        assert all("serves" in line for line in collections)

    def test_memories_written_without_the_second_model_are_embedded_later(self, store: Store) -> None:
        for _ in range(2):
            engine = store.open(FIRST, also=[SECOND])
            assert engine._parts.beside["second"].filling.wait(SECONDS)
            engine.close()
            engine = store.open(FIRST)
            memory = engine.scope().remember(f"Likes rain in {clock.now()}")
            revised = engine.scope().remember("Prefers tea")
            engine.scope().revise(revised.id, text=f"Prefers tea with {memory.id}")
            engine.close()
        engine = store.open(FIRST, also=[SECOND])
        hits = None
        while hits is None:
            try:
                hits = engine.scope().recall(memory.text, model="second")
            except ModelUnavailable:
                engine._parts.beside["second"].filling.wait(SECONDS)
        assert hits[0].memory.id == memory.id
        assert engine.scope().recall(memory.id, model="second")

    def test_a_fill_is_seen_by_a_process_that_searches_by_the_model_already(self, sqlite_store: Store) -> None:
        running_engine = sqlite_store.open(FIRST, also=[SECOND])
        running_engine.scope().remember("Prefers green tea")
        assert running_engine.scope().recall("green tea", model="second")
        sqlite_store.open(FIRST).scope().remember("Likes rain")
        assert not running_engine.scope().recall("likes rain", model="second")
        assert sqlite_store.open(FIRST, also=[SECOND])._parts.beside["second"].filling.wait(SECONDS)
        assert texts(running_engine.scope().recall("likes rain", model="second")) == ["Likes rain"]

    def test_the_models_change_places_without_embedding_anything(self, store: Store) -> None:
        engine = store.open(FIRST, also=[SECOND])
        memory = engine.scope().remember(
            "Prefers green tea", vector={"first": make_axis_vector(1), "second": make_axis_vector(2, 48)}
        )
        assert engine._parts.beside["second"].filling.wait(SECONDS)
        engine.close()
        engine = store.open(SECOND, also=[FIRST])
        reembedding = engine._parts.reembedding
        assert reembedding is not None
        assert reembedding.wait(SECONDS)
        assert engine._parts.beside["first"].filling.wait(SECONDS)
        assert find_nearest(engine.scope(), make_axis_vector(2, 48)) == memory.id
        assert find_nearest(engine.scope(), make_axis_vector(1), model="first") == memory.id
        assert engine.doctor().parts["embedding"] == "second (48 dimensions)"

    def test_a_beside_model_stays_after_a_change_of_the_first_model(self, store: Store) -> None:
        engine = store.open(FIRST, also=[SECOND])
        memory = engine.scope().remember("Prefers green tea", vector={"second": make_axis_vector(2, 48)})
        engine.close()
        engine = store.open(FakeEmbedder("third", 24), also=[SECOND])
        reembedding = engine._parts.reembedding
        assert reembedding is not None
        later = engine.scope().remember("Likes rain")
        assert reembedding.wait(SECONDS)
        assert engine._parts.beside["second"].filling.wait(SECONDS)
        assert find_nearest(engine.scope(), make_axis_vector(2, 48), model="second") == memory.id
        for model in ("second", "third"):
            assert engine.scope().recall("likes rain", model=model)[0].memory.id == later.id
        assert get_vectors(engine.scope(), memory.id, "first") == []

    def test_a_beside_model_is_dropped_only_on_request(self, store: Store) -> None:
        engine = store.open(FIRST, also=[SECOND])
        memory = engine.scope().remember("Prefers green tea")
        for name in ("first", "second"):
            with pytest.raises(InvalidInput, match="in use"):
                engine.drop_model(name)
        engine.close()
        engine = store.open(FIRST)
        assert get_vectors(engine.scope(), memory.id, "second")
        with pytest.raises(NotFound, match="no embedding model 'third' in this store; choose from 'first', 'second'"):
            engine.drop_model("third")
        engine.drop_model("second")
        assert not get_vectors(engine.scope(), memory.id, "second")
        assert get_vectors(engine.scope(), memory.id, "first")
        assert not engine.doctor().problems

    def test_an_incomplete_beside_model_refuses_to_search(self, sqlite_store: Store) -> None:
        class BrokenEmbedder(FakeEmbedder):
            def embed(self, texts: Any) -> list[Vector | None]:
                raise ModelUnavailable("the second model is away")

        engine = sqlite_store.open(FIRST)
        engine.scope().remember("Prefers green tea")
        engine.close()
        engine = sqlite_store.open(FIRST, also=[BrokenEmbedder("second", 48)])
        with pytest.raises(ModelUnavailable, match="model 'second' has embedded 0 of 1 memories so far"):
            engine.scope().recall("green tea", model="second")
        assert engine.scope().recall("green tea")
        engine._parts.beside["second"].filling.stop()
        assert any("by model 'second' has stopped" in problem for problem in engine.doctor().problems)

    def test_two_models_of_the_same_name_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="two embedding models are named 'first'"):
            Everhold.open(tmp_path / "notes.db", embedder=FIRST, also=[FakeEmbedder("first", 8)])

    def test_the_name_of_a_model_with_other_dimensions_is_refused(self, sqlite_store: Store) -> None:
        sqlite_store.open(FIRST, also=[SECOND]).close()
        with pytest.raises(ValueError, match="'second' has 48 dimensions in this store, and 8 were given"):
            sqlite_store.open(FIRST, also=[FakeEmbedder("second", 8)])
