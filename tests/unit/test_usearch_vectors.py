"""Nearest vectors from usearch files: as exact as a full scan, up to date, private, and checked for damage."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.adapters.usearch import UsearchVectors, index
from everhold.adapters.usearch.rows import IndexSpace
from everhold.clock import make_id, now
from everhold.model import Memory, Scope, User
from everhold.model.change_feed import Outbox
from everhold.ports.embedder import Vector
from everhold.ports.search_space import SearchSpace
from everhold.remember.chunks import Chunking
from everhold.remember.forget import forget
from everhold.remember.pipeline import WriteDeps, remember
from everhold.remember.revise import revise
from everhold.remember.scope_rows import ScopeRows
from everhold.schema.operations import Hide, Put, Unhide
from everhold.testing.fake_embedder import FakeEmbedder

DIMENSIONS = 64
MODEL = "fake"
SCOPE = Scope(organization="acme", user="alice")
ALL_USERS = SearchSpace("acme", None, MODEL)
ALICE_ONLY = SearchSpace("acme", ("alice",), MODEL)
WORDS = [
    "tea",
    "coffee",
    "rain",
    "snow",
    "train",
    "plane",
    "piano",
    "violin",
    "garden",
    "river",
    "mountain",
    "desert",
    "code",
    "test",
    "paper",
    "glass",
]


@dataclass
class Store:
    """A store in a folder, and its index files beside it."""

    folder: Path
    records: SqliteRecords
    write_deps: WriteDeps
    embedder: FakeEmbedder

    @property
    def indexes(self) -> Path:
        return self.folder / "memory.db.vectors"

    def vectors(self, exact_up_to: int = 100_000) -> UsearchVectors:
        return UsearchVectors(self.records, self.indexes, exact_up_to=exact_up_to)

    def add(self, *texts: str, scope: Scope = SCOPE) -> list[str]:
        return [memory.id for memory in remember(self.write_deps, scope, texts)]

    def ask(self, text: str) -> Vector:
        vector = self.embedder.embed([text])[0]
        assert vector is not None
        return vector


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    records = SqliteRecords(SqliteOptions(tmp_path / "memory.db", synchronous="NORMAL"))
    embedder = FakeEmbedder(MODEL, DIMENSIONS)
    write_deps = WriteDeps(
        records, Chunking(embedder, embedder), ScopeRows(records, strict=False, timezone="UTC"), text_bytes=1_000_000
    )
    yield Store(tmp_path, records, write_deps, embedder)
    records.close()


def sentences(count: int, seed: int = 1) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{' '.join(rng.choice(WORDS, 5))} number {number}" for number in range(count)]


def nearest(vectors: UsearchVectors, store: Store, text: str, limit: int = 5, scope: Scope = SCOPE) -> list[str]:
    users = None if scope.user is None else (scope.user,)
    return vectors.find_by_vector(SearchSpace(scope.organization, users, MODEL), store.ask(text), limit)


def list_files(store: Store, suffix: str) -> list[Path]:
    return sorted(store.indexes.glob(f"*.{suffix}"))


class TestAnswers:
    def test_answers_equal_those_of_a_full_scan(self, store: Store) -> None:
        store.add(*sentences(400))
        vectors, scanned = store.vectors(), ScannedVectors(store.records)
        for question in ("tea in the garden", "piano number 7", "desert train"):
            vector = store.ask(question)
            expected = scanned.find_by_vector(ALICE_ONLY, vector, 20)
            assert vectors.find_by_vector(ALICE_ONLY, vector, 20) == expected
            assert vectors.find_by_vector(ALL_USERS, vector, 20) == expected

    def test_a_graph_finds_nearly_the_same_memories_as_a_scan(self, store: Store) -> None:
        store.add(*sentences(2000))
        vectors, scanned = store.vectors(exact_up_to=500), ScannedVectors(store.records)
        space = IndexSpace(ALICE_ONLY, DIMENSIONS)
        questions = [store.ask(text) for text in sentences(40, seed=9)]
        vectors.find_by_vector(ALICE_ONLY, questions[0], 1)
        assert vectors.index(space).exact, "the first answer waited for the graph"
        vectors.settle()
        assert not vectors.index(space).exact
        found_count = sum(
            len(
                set(vectors.find_by_vector(ALICE_ONLY, question, 10))
                & set(scanned.find_by_vector(ALICE_ONLY, question, 10))
            )
            for question in questions
        )
        assert found_count >= 0.98 * 400

    def test_an_empty_store_has_no_nearest_vectors(self, store: Store) -> None:
        assert nearest(store.vectors(), store, "anything") == []

    def test_rows_without_a_vector_or_closed_are_left_out(self, store: Store) -> None:
        kept, changed = store.add("green tea", "black tea")
        remember(store.write_deps, SCOPE, [{"content": {"device": "kettle"}}])
        revise(store.write_deps, SCOPE, changed, {"text": "a violin in the snow"}, None)
        vectors = store.vectors()
        assert nearest(vectors, store, "black tea", 10) == [kept, changed]
        assert vectors.index(IndexSpace(ALICE_ONLY, DIMENSIONS))._base.size == 2

    def test_a_memory_of_many_chunks_is_returned_once(self, store: Store) -> None:
        text = ". ".join(sentences(300))
        (long,) = store.add(text)
        (short,) = store.add("tea")
        assert set(nearest(store.vectors(), store, "tea", 50)) == {long, short}


class TestFollowing:
    def test_searches_follow_additions_revisions_and_deletions(self, store: Store) -> None:
        vectors = store.vectors()
        first, second = store.add("tea with milk", "a train to the desert")
        assert nearest(vectors, store, "tea with milk", 1) == [first]
        (third,) = store.add("tea with milk and honey")
        assert nearest(vectors, store, "tea with milk and honey", 1) == [third]
        revise(store.write_deps, SCOPE, second, {"text": "cold tea with milk and honey"}, None)
        assert nearest(vectors, store, "cold tea with milk and honey", 1) == [second]
        forget(store.write_deps, SCOPE, second, hard=False)
        assert nearest(vectors, store, "cold tea with milk and honey", 3) == [third, first]
        forget(store.write_deps, SCOPE, third, hard=True)
        assert nearest(vectors, store, "cold tea with milk and honey", 3) == [first]

    def test_memories_of_a_restored_user_are_found_again(self, store: Store) -> None:
        vectors = store.vectors()
        (memory,) = store.add("tea with milk")
        assert nearest(vectors, store, "tea") == [memory]
        above = {"organization_id": "acme", "entity": "users", "entity_id": "alice"}
        hide = Hide(User, ("acme", "alice"), make_id("del"), now())
        store.records.commit([hide, Put(Outbox(**above, operation="delete"))])
        assert nearest(vectors, store, "tea") == []
        store.records.commit([Unhide("acme", hide.deletion_id), Put(Outbox(**above, operation="restore"))])
        assert nearest(vectors, store, "tea") == [memory]

    def test_many_changes_are_written_to_the_file(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index, "_MIN_RECENT", 20)
        vectors, scanned = store.vectors(exact_up_to=100), ScannedVectors(store.records)
        ids = store.add(*sentences(300))
        user_index = vectors.index(IndexSpace(ALICE_ONLY, DIMENSIONS))
        question = store.ask("rain on the mountain")
        for step in range(8):
            store.add(*sentences(30, seed=step + 50))
            revise(store.write_deps, SCOPE, ids[step], {"text": f"rain on the mountain, again {step}"}, None)
            forget(store.write_deps, SCOPE, ids[100 + step], hard=bool(step % 2))
            candidates = vectors.find_by_vector(ALICE_ONLY, question, 10)
            assert set(candidates) == set(scanned.find_by_vector(ALICE_ONLY, question, 10))
            vectors.settle()
        nearest(vectors, store, "rain")
        vectors.settle()
        assert user_index._base.size >= 500
        assert len(user_index._recent.changed) <= 60
        assert len(list_files(store, "usearch")) == 1, "earlier generations are removed"

    def test_threads_that_search_and_write_find_their_own_writes(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index, "_MIN_RECENT", 10)
        store.add(*sentences(200))
        vectors = store.vectors(exact_up_to=50)
        wrong: list[str] = []

        def ask(number: int) -> None:
            for step in range(15):
                text = f"thread {number} says {WORDS[step]} {step}"
                (memory,) = store.add(text)
                if nearest(vectors, store, text, 1) != [memory]:
                    wrong.append(text)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        vectors.close()
        assert wrong == []


class TestFiles:
    def test_the_index_survives_a_restart_without_rebuilding(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, *_ = store.add(*sentences(50))
        before = nearest(store.vectors(), store, "tea", 10)
        (added,) = store.add("tea tea tea")
        forget(store.write_deps, SCOPE, first, hard=False)

        def refuse(*_: object) -> None:
            raise AssertionError("everything was read again")

        monkeypatch.setattr(index, "read_all_rows", refuse)
        again = nearest(store.vectors(), store, "tea", 10)
        assert again[0] == added
        assert first not in again
        assert len(set(again) & set(before)) >= 8

    @pytest.mark.parametrize("suffix", ["usearch", "owners", "json"])
    @pytest.mark.parametrize("harm", ["cut", "flipped", "gone", "empty"])
    def test_damage_is_found(self, store: Store, suffix: str, harm: str) -> None:
        store.add(*sentences(60))
        expected = nearest(store.vectors(), store, "tea", 10)
        (path,) = list_files(store, suffix)
        content = path.read_bytes()
        match harm:
            case "cut":
                path.write_bytes(content[: len(content) // 2])
            case "flipped":
                middle = len(content) // 2
                path.write_bytes(content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :])
            case "gone":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
        assert nearest(store.vectors(), store, "tea", 10) == expected

    def test_files_of_another_store_are_not_used(self, store: Store) -> None:
        store.add(*sentences(30))
        nearest(store.vectors(), store, "tea")
        other = SqliteRecords(SqliteOptions(store.folder / "other.db", synchronous="NORMAL"))
        write_deps = WriteDeps(
            other, store.write_deps.chunking, ScopeRows(other, strict=False, timezone="UTC"), text_bytes=1_000_000
        )
        ids = {memory.id for memory in remember(write_deps, SCOPE, sentences(40, seed=4))}
        candidates = UsearchVectors(other, store.indexes).find_by_vector(ALICE_ONLY, store.ask("tea"), 100)
        assert set(candidates) == ids
        other.close()

    def test_only_the_owner_can_read_and_file_names_reveal_nothing(self, store: Store) -> None:
        store.add("tea")
        nearest(store.vectors(), store, "tea")
        assert store.indexes.stat().st_mode & 0o777 == 0o700
        paths = list(store.indexes.iterdir())
        assert len(paths) == 3
        for path in paths:
            assert path.stat().st_mode & 0o777 == 0o600
            assert "acme" not in path.name
            assert "alice" not in path.name

    def test_a_json_file_describes_the_index_files(self, store: Store) -> None:
        store.add(*sentences(12))
        nearest(store.vectors(), store, "tea")
        note = json.loads(list_files(store, "json")[0].read_text())
        assert (note["model"], note["dimensions"], note["count"]) == (MODEL, DIMENSIONS, 12)
        assert note["sequence"] == store.records.head()

    def test_a_folder_that_cannot_be_written_costs_only_time(self, store: Store) -> None:
        (memory,) = store.add("tea")
        store.indexes.write_text("a file where the folder should be")
        assert nearest(store.vectors(), store, "tea") == [memory]


class TestScopes:
    def test_organizations_and_users_never_mix(self, store: Store) -> None:
        scopes = [
            Scope(organization=organization, user=user)
            for organization in ("acme", "bolt")
            for user in ("alice", "bob")
        ]
        own = {scope: set(store.add(*sentences(20), scope=scope)) for scope in scopes}
        vectors = store.vectors()
        for scope in scopes:
            assert set(nearest(vectors, store, "tea", 100, scope)) == own[scope]
        for name in ("acme", "bolt"):
            everyone = set().union(*(ids for scope, ids in own.items() if scope.organization == name))
            assert set(nearest(vectors, store, "tea", 100, Scope(organization=name))) == everyone
        assert nearest(vectors, store, "tea", 100, Scope(organization="acme", user="carol")) == []

    def test_shared_rows_and_similar_user_names_stay_separate(self, store: Store) -> None:
        shared = set(store.add("tea for all", scope=Scope(organization="acme")))
        mine = set(store.add("tea for alice"))
        vectors = store.vectors()
        vector = store.ask("tea")
        assert set(vectors.find_by_vector(SearchSpace("acme", ("",), MODEL), vector, 9)) == shared
        assert set(vectors.find_by_vector(SearchSpace("acme", ("alice", ""), MODEL), vector, 9)) == shared | mine
        assert (
            IndexSpace(SearchSpace("a", ("b",), "m"), 8).file_name
            != IndexSpace(SearchSpace("a", None, "m"), 8).file_name
        )
        assert (
            IndexSpace(SearchSpace("a", ("",), "m"), 8).file_name
            != IndexSpace(SearchSpace("a", None, "m"), 8).file_name
        )

    def test_models_never_mix(self, store: Store) -> None:
        store.add("tea")
        vectors = store.vectors()
        assert vectors.find_by_vector(SearchSpace("acme", None, "another"), store.ask("tea"), 9) == []
        wide = FakeEmbedder(MODEL, 2 * DIMENSIONS).embed(["tea"])[0]
        assert wide is not None
        assert vectors.find_by_vector(ALL_USERS, wide, 9) == []

    def test_every_proposal_is_a_live_memory(self, store: Store) -> None:
        ids = store.add(*sentences(30))
        vectors = store.vectors()
        nearest(vectors, store, "tea", 30)
        for memory_id in ids[::3]:
            forget(store.write_deps, SCOPE, memory_id, hard=False)
        nearest_ids = nearest(vectors, store, "tea", 30)
        assert set(store.records.get(Memory, "acme", nearest_ids)) == set(nearest_ids) == set(ids) - set(ids[::3])
