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
class IndexedStore:
    """A store in a folder, and its index files beside it."""

    folder: Path
    records: SqliteRecords
    write_deps: WriteDeps
    embedder: FakeEmbedder

    @property
    def index_folder(self) -> Path:
        return self.folder / "memory.db.vectors"

    def open_vectors(self, exact_up_to: int = 100_000) -> UsearchVectors:
        return UsearchVectors(self.records, self.index_folder, exact_up_to=exact_up_to)

    def add(self, *texts: str, scope: Scope = SCOPE) -> list[str]:
        return [memory.id for memory in remember(self.write_deps, scope, texts)]

    def embed(self, text: str) -> Vector:
        vector = self.embedder.embed([text])[0]
        assert vector is not None
        return vector


@pytest.fixture
def store(tmp_path: Path) -> Iterator[IndexedStore]:
    records = SqliteRecords(SqliteOptions(tmp_path / "memory.db", synchronous="NORMAL"))
    embedder = FakeEmbedder(MODEL, DIMENSIONS)
    write_deps = WriteDeps(
        records, Chunking(embedder, embedder), ScopeRows(records, strict=False, timezone="UTC"), text_bytes=1_000_000
    )
    yield IndexedStore(tmp_path, records, write_deps, embedder)
    records.close()


def make_sentences(count: int, seed: int = 1) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{' '.join(rng.choice(WORDS, 5))} number {number}" for number in range(count)]


def find_nearest(
    vectors: UsearchVectors, store: IndexedStore, text: str, limit: int = 5, scope: Scope = SCOPE
) -> list[str]:
    users = None if scope.user is None else (scope.user,)
    return vectors.find_by_vector(SearchSpace(scope.organization, users, MODEL), store.embed(text), limit)


def list_files(store: IndexedStore, suffix: str) -> list[Path]:
    return sorted(store.index_folder.glob(f"*.{suffix}"))


class TestAnswers:
    def test_answers_equal_those_of_a_full_scan(self, store: IndexedStore) -> None:
        store.add(*make_sentences(400))
        vectors, scanned = store.open_vectors(), ScannedVectors(store.records)
        for question in ("tea in the garden", "piano number 7", "desert train"):
            vector = store.embed(question)
            expected = scanned.find_by_vector(ALICE_ONLY, vector, 20)
            assert vectors.find_by_vector(ALICE_ONLY, vector, 20) == expected
            assert vectors.find_by_vector(ALL_USERS, vector, 20) == expected

    def test_a_graph_finds_nearly_the_same_memories_as_a_scan(self, store: IndexedStore) -> None:
        store.add(*make_sentences(2000))
        vectors, scanned = store.open_vectors(exact_up_to=500), ScannedVectors(store.records)
        space = IndexSpace(ALICE_ONLY, DIMENSIONS)
        question_vectors = [store.embed(text) for text in make_sentences(40, seed=9)]
        vectors.find_by_vector(ALICE_ONLY, question_vectors[0], 1)
        assert vectors.index(space).exact, "the first answer waited for the graph"
        vectors.settle()
        assert not vectors.index(space).exact
        common_count = 0
        for vector in question_vectors:
            exact_ids = scanned.find_by_vector(ALICE_ONLY, vector, 10)
            common_count += len(set(vectors.find_by_vector(ALICE_ONLY, vector, 10)) & set(exact_ids))
        assert common_count >= 0.98 * 10 * len(question_vectors)

    def test_an_empty_store_has_no_nearest_vectors(self, store: IndexedStore) -> None:
        assert find_nearest(store.open_vectors(), store, "anything") == []

    def test_rows_without_a_vector_or_closed_are_left_out(self, store: IndexedStore) -> None:
        unchanged_id, changed_id = store.add("green tea", "black tea")
        remember(store.write_deps, SCOPE, [{"content": {"device": "kettle"}}])
        revise(store.write_deps, SCOPE, changed_id, {"text": "a violin in the snow"}, None)
        vectors = store.open_vectors()
        assert find_nearest(vectors, store, "black tea", 10) == [unchanged_id, changed_id]
        assert vectors.index(IndexSpace(ALICE_ONLY, DIMENSIONS))._base.size == 2

    def test_a_memory_of_many_chunks_is_returned_once(self, store: IndexedStore) -> None:
        text = ". ".join(make_sentences(300))
        (long_id,) = store.add(text)
        (short_id,) = store.add("tea")
        assert set(find_nearest(store.open_vectors(), store, "tea", 50)) == {long_id, short_id}


class TestFollowing:
    def test_searches_follow_additions_revisions_and_deletions(self, store: IndexedStore) -> None:
        vectors = store.open_vectors()
        first_id, second_id = store.add("tea with milk", "a train to the desert")
        assert find_nearest(vectors, store, "tea with milk", 1) == [first_id]
        (third_id,) = store.add("tea with milk and honey")
        assert find_nearest(vectors, store, "tea with milk and honey", 1) == [third_id]
        revise(store.write_deps, SCOPE, second_id, {"text": "cold tea with milk and honey"}, None)
        assert find_nearest(vectors, store, "cold tea with milk and honey", 1) == [second_id]
        forget(store.write_deps, SCOPE, second_id, hard=False)
        assert find_nearest(vectors, store, "cold tea with milk and honey", 3) == [third_id, first_id]
        forget(store.write_deps, SCOPE, third_id, hard=True)
        assert find_nearest(vectors, store, "cold tea with milk and honey", 3) == [first_id]

    def test_memories_of_a_restored_user_are_found_again(self, store: IndexedStore) -> None:
        vectors = store.open_vectors()
        (memory_id,) = store.add("tea with milk")
        assert find_nearest(vectors, store, "tea") == [memory_id]
        outbox_fields = {"organization_id": "acme", "entity": "users", "entity_id": "alice"}
        hide = Hide(User, ("acme", "alice"), make_id("del"), now())
        store.records.commit([hide, Put(Outbox(**outbox_fields, operation="delete"))])
        assert find_nearest(vectors, store, "tea") == []
        store.records.commit([Unhide("acme", hide.deletion_id), Put(Outbox(**outbox_fields, operation="restore"))])
        assert find_nearest(vectors, store, "tea") == [memory_id]

    def test_many_changes_are_written_to_the_file(self, store: IndexedStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index, "_MIN_RECENT", 20)
        vectors, scanned = store.open_vectors(exact_up_to=100), ScannedVectors(store.records)
        ids = store.add(*make_sentences(300))
        user_index = vectors.index(IndexSpace(ALICE_ONLY, DIMENSIONS))
        question_vector = store.embed("rain on the mountain")
        for step in range(8):
            store.add(*make_sentences(30, seed=step + 50))
            revise(store.write_deps, SCOPE, ids[step], {"text": f"rain on the mountain, again {step}"}, None)
            forget(store.write_deps, SCOPE, ids[100 + step], hard=bool(step % 2))
            candidates = vectors.find_by_vector(ALICE_ONLY, question_vector, 10)
            assert set(candidates) == set(scanned.find_by_vector(ALICE_ONLY, question_vector, 10))
            vectors.settle()
        find_nearest(vectors, store, "rain")
        vectors.settle()
        assert user_index._base.size >= 500
        assert len(user_index._recent.changed) <= 60
        assert len(list_files(store, "usearch")) == 1, "earlier generations are removed"

    def test_threads_that_search_and_write_find_their_own_writes(
        self, store: IndexedStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index, "_MIN_RECENT", 10)
        store.add(*make_sentences(200))
        vectors = store.open_vectors(exact_up_to=50)
        missed_texts: list[str] = []

        def add_and_search(number: int) -> None:
            for step in range(15):
                text = f"thread {number} says {WORDS[step]} {step}"
                (memory_id,) = store.add(text)
                if find_nearest(vectors, store, text, 1) != [memory_id]:
                    missed_texts.append(text)

        threads = [threading.Thread(target=add_and_search, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        vectors.close()
        assert missed_texts == []


class TestFiles:
    def test_the_index_survives_a_restart_without_rebuilding(
        self, store: IndexedStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first_id, *_ = store.add(*make_sentences(50))
        ids_before = find_nearest(store.open_vectors(), store, "tea", 10)
        (added_id,) = store.add("tea tea tea")
        forget(store.write_deps, SCOPE, first_id, hard=False)

        def refuse(*_: object) -> None:
            raise AssertionError("everything was read again")

        monkeypatch.setattr(index, "read_all_rows", refuse)
        ids_after = find_nearest(store.open_vectors(), store, "tea", 10)
        assert ids_after[0] == added_id
        assert first_id not in ids_after
        assert len(set(ids_after) & set(ids_before)) >= 8

    @pytest.mark.parametrize("suffix", ["usearch", "owners", "json"])
    @pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "empty"])
    def test_damage_is_found(self, store: IndexedStore, suffix: str, damage: str) -> None:
        store.add(*make_sentences(60))
        expected = find_nearest(store.open_vectors(), store, "tea", 10)
        (path,) = list_files(store, suffix)
        content = path.read_bytes()
        match damage:
            case "cut":
                path.write_bytes(content[: len(content) // 2])
            case "flipped":
                middle = len(content) // 2
                path.write_bytes(content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :])
            case "gone":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
        assert find_nearest(store.open_vectors(), store, "tea", 10) == expected

    def test_files_of_another_store_are_not_used(self, store: IndexedStore) -> None:
        store.add(*make_sentences(30))
        find_nearest(store.open_vectors(), store, "tea")
        other_records = SqliteRecords(SqliteOptions(store.folder / "other.db", synchronous="NORMAL"))
        write_deps = WriteDeps(
            other_records,
            store.write_deps.chunking,
            ScopeRows(other_records, strict=False, timezone="UTC"),
            text_bytes=1_000_000,
        )
        ids = {memory.id for memory in remember(write_deps, SCOPE, make_sentences(40, seed=4))}
        candidates = UsearchVectors(other_records, store.index_folder).find_by_vector(
            ALICE_ONLY, store.embed("tea"), 100
        )
        assert set(candidates) == ids
        other_records.close()

    def test_only_the_owner_can_read_and_file_names_reveal_nothing(self, store: IndexedStore) -> None:
        store.add("tea")
        find_nearest(store.open_vectors(), store, "tea")
        assert store.index_folder.stat().st_mode & 0o777 == 0o700
        paths = list(store.index_folder.iterdir())
        assert len(paths) == 3
        for path in paths:
            assert path.stat().st_mode & 0o777 == 0o600
            assert "acme" not in path.name
            assert "alice" not in path.name

    def test_a_json_file_describes_the_index_files(self, store: IndexedStore) -> None:
        store.add(*make_sentences(12))
        find_nearest(store.open_vectors(), store, "tea")
        description = json.loads(list_files(store, "json")[0].read_text())
        assert (description["model"], description["dimensions"], description["count"]) == (MODEL, DIMENSIONS, 12)
        assert description["sequence"] == store.records.head()

    def test_a_folder_that_cannot_be_written_costs_only_time(self, store: IndexedStore) -> None:
        (memory_id,) = store.add("tea")
        store.index_folder.write_text("a file where the folder should be")
        assert find_nearest(store.open_vectors(), store, "tea") == [memory_id]


class TestScopes:
    def test_organizations_and_users_never_mix(self, store: IndexedStore) -> None:
        scopes = [
            Scope(organization=organization, user=user)
            for organization in ("acme", "bolt")
            for user in ("alice", "bob")
        ]
        ids_by_scope = {scope: set(store.add(*make_sentences(20), scope=scope)) for scope in scopes}
        vectors = store.open_vectors()
        for scope in scopes:
            assert set(find_nearest(vectors, store, "tea", 100, scope)) == ids_by_scope[scope]
        for name in ("acme", "bolt"):
            organization_ids = set().union(*(ids for scope, ids in ids_by_scope.items() if scope.organization == name))
            assert set(find_nearest(vectors, store, "tea", 100, Scope(organization=name))) == organization_ids
        assert find_nearest(vectors, store, "tea", 100, Scope(organization="acme", user="carol")) == []

    def test_shared_rows_and_similar_user_names_stay_separate(self, store: IndexedStore) -> None:
        shared_ids = set(store.add("tea for all", scope=Scope(organization="acme")))
        alice_ids = set(store.add("tea for alice"))
        vectors = store.open_vectors()
        vector = store.embed("tea")
        assert set(vectors.find_by_vector(SearchSpace("acme", ("",), MODEL), vector, 9)) == shared_ids
        assert (
            set(vectors.find_by_vector(SearchSpace("acme", ("alice", ""), MODEL), vector, 9)) == shared_ids | alice_ids
        )
        assert (
            IndexSpace(SearchSpace("a", ("b",), "m"), 8).file_name
            != IndexSpace(SearchSpace("a", None, "m"), 8).file_name
        )
        assert (
            IndexSpace(SearchSpace("a", ("",), "m"), 8).file_name
            != IndexSpace(SearchSpace("a", None, "m"), 8).file_name
        )

    def test_models_never_mix(self, store: IndexedStore) -> None:
        store.add("tea")
        vectors = store.open_vectors()
        assert vectors.find_by_vector(SearchSpace("acme", None, "another"), store.embed("tea"), 9) == []
        wide = FakeEmbedder(MODEL, 2 * DIMENSIONS).embed(["tea"])[0]
        assert wide is not None
        assert vectors.find_by_vector(ALL_USERS, wide, 9) == []

    def test_every_proposal_is_a_live_memory(self, store: IndexedStore) -> None:
        ids = store.add(*make_sentences(30))
        vectors = store.open_vectors()
        find_nearest(vectors, store, "tea", 30)
        for memory_id in ids[::3]:
            forget(store.write_deps, SCOPE, memory_id, hard=False)
        nearest_ids = find_nearest(vectors, store, "tea", 30)
        assert set(store.records.get(Memory, "acme", nearest_ids)) == set(nearest_ids) == set(ids) - set(ids[::3])
