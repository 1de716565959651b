"""Nearest vectors from Chroma, in a folder and on a server: as exact as a full scan, up to date and private."""

import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from everhold import clock
from everhold.adapters.chroma import ChromaVectors, read_address
from everhold.adapters.chroma.rows import CollectionSpace
from everhold.adapters.chroma.search import ChunkEntry, make_chunk_id
from everhold.adapters.in_process import InProcessSessions
from everhold.errors import InvalidInput, InvalidSettings, MissingExtra, StoreUnavailable
from everhold.model import Outbox, ProjectionState, Scope
from everhold.ports.search_space import SearchSpace
from everhold.remember.chunks import make_chunks_or_words
from everhold.remember.forget import forget
from everhold.remember.revise import revise
from everhold.schema.catalog import get_key
from everhold.schema.operations import Delete, Patch
from everhold.sessions.deps import SessionDeps
from everhold.sessions.pipeline import say
from everhold.tenancy import deletion
from tests.chroma_store import (
    ALICE,
    DIMENSIONS,
    MODEL,
    SECONDS,
    ChromaStore,
    CountingFallback,
    count_fallbacks,
    get_generation,
    get_projection,
    make_sentences,
)
from tests.engines import Store as EngineStore
from tests.exhaustive import choose_size

BOB = Scope(organization="acme", user="bob")
OTHER = Scope(organization="other", user="alice")

ALICES = SearchSpace("acme", ("alice",), MODEL)
EVERYONES = SearchSpace("acme", None, MODEL)


@pytest.fixture(params=["folder", "server"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChromaStore]:
    if request.param == "server":
        address = request.getfixturevalue("chroma_server").url
    else:
        address = f"chroma:///{tmp_path / 'chroma'}"
    store = ChromaStore.make(tmp_path, address)
    yield store
    store.close()


class TestAnswers:
    def test_answers_equal_those_of_a_full_scan(self, store: ChromaStore) -> None:
        for user in ("alice", "bob", "carol"):
            store.add(
                *make_sentences(choose_size(400, 1000), seed=len(user)), scope=Scope(organization="acme", user=user)
            )
        vectors = store.open_vectors()
        questions = make_sentences(30, seed=9)
        for scope in (ALICE, Scope(organization="acme")):
            found_count = sum(
                len(
                    set(store.find_nearest(vectors, question, 10, scope)) & set(store.scan_nearest(question, 10, scope))
                )
                for question in questions
            )
            assert found_count >= 0.95 * 10 * len(questions)
        assert count_fallbacks(vectors) == 0

    def test_an_empty_store_has_no_nearest_vectors(self, store: ChromaStore) -> None:
        vectors = store.open_vectors()
        assert store.find_nearest(vectors, "anything") == []
        assert vectors.find_by_vector(SearchSpace("acme", (), MODEL), store.embed("x"), 5) == []
        assert count_fallbacks(vectors) == 0

    def test_messages_have_a_collection_of_their_own(self, store: ChromaStore) -> None:
        (memory_id,) = store.add("green tea in the garden")
        vectors = store.open_vectors()
        session_deps = SessionDeps(
            store.records,
            store.write_deps.scope_rows,
            InProcessSessions(ttl_seconds=60, history=10),
            text_bytes=1000,
            make_chunks=lambda message: make_chunks_or_words([message], store.write_deps.chunking)[0],
        )
        chat = Scope(organization="acme", user="alice", session="s1")
        message_ids = [say(session_deps, chat, {"role": "user", "text": text}).id for text in ("green tea", "a violin")]
        space = SearchSpace("acme", ("alice",), MODEL, "message")
        assert vectors.find_by_vector(space, store.embed("green tea"), 5) == message_ids, (
            "the records answer the first search"
        )
        assert vectors.wait(SECONDS)
        fallback_questions = count_fallbacks(vectors)
        message_ids.append(say(session_deps, chat, {"role": "user", "text": "a piano in the rain"}).id)
        assert vectors.find_by_vector(space, store.embed("piano rain"), 1) == message_ids[-1:]
        assert set(vectors.find_by_vector(space, store.embed("green tea"), 5)) == set(message_ids)
        assert store.find_nearest(vectors, "green tea") == [memory_id]
        assert count_fallbacks(vectors) == fallback_questions

    def test_a_memory_of_many_chunks_is_returned_once(self, store: ChromaStore) -> None:
        (memory_id,) = store.add(" ".join(["tea garden"] * 2000))
        assert store.find_nearest(store.open_vectors(), "tea garden", 50) == [memory_id]

    def test_metadata_and_texts_can_be_asked_about(self, store: ChromaStore) -> None:
        (plain_id,) = store.add("green tea in the garden")
        (matcha_id,) = [
            memory.id
            for memory in _remember(
                store, {"text": "black tea", "kind": "preference", "provenance": {"source": "import"}}
            )
        ]
        vectors, question_vector = store.open_vectors(), store.embed("tea")
        entries = vectors.search(ALICES, question_vector, n_results=5)
        assert {entry.metadata["owner_id"] for entry in entries} == {plain_id, matcha_id}
        (match,) = vectors.search(ALICES, question_vector, where={"type": "preference"})
        moment = match.metadata["timestamp"]
        assert match.document == "black tea"
        assert dict(match.metadata) == {
            "source": "import",
            "timestamp": moment,
            "session_id": "",
            "type": "preference",
            "organization_id": "acme",
            "user_id": "alice",
            "owner_id": matcha_id,
        }
        assert clock.now() - datetime.fromisoformat(moment) < timedelta(minutes=5)
        (match,) = vectors.search(EVERYONES, question_vector, where_document={"$contains": "garden"})
        assert match.metadata["owner_id"] == plain_id
        assert vectors.search(EVERYONES, question_vector, n_results=1, where_document={"$contains": "lemon"}) == []

    def test_a_condition_chroma_does_not_know_is_refused(self, store: ChromaStore) -> None:
        store.add("tea")
        vectors = store.open_vectors()
        with pytest.raises(InvalidInput, match="Chroma"):
            vectors.search(EVERYONES, store.embed("tea"), where={"type": {"$near": "fact"}})
        assert vectors.serves

    def test_a_search_before_chroma_is_ready_is_refused(self, store: ChromaStore) -> None:
        vectors = store.open_vectors(wait=False)
        with pytest.raises(StoreUnavailable, match="Chroma"):
            vectors.search(EVERYONES, store.embed("tea"))


def _remember(store: ChromaStore, *items: dict[str, Any]) -> list[Any]:
    from everhold.remember.pipeline import remember

    return list(remember(store.write_deps, ALICE, items))


class TestFollowing:
    def test_committed_rows_are_found_at_once(self, store: ChromaStore) -> None:
        vectors = store.open_vectors()
        (tea_id,) = store.add("green tea")
        assert store.find_nearest(vectors, "green tea") == [tea_id]
        (coffee_id,) = store.add("black coffee")
        assert store.find_nearest(vectors, "black coffee") == [coffee_id, tea_id]
        revise(store.write_deps, ALICE, tea_id, {"text": "a violin in the snow"}, None)
        assert store.find_nearest(vectors, "violin in the snow", 1) == [tea_id]
        forget(store.write_deps, ALICE, coffee_id, hard=False)
        assert store.find_nearest(vectors, "black coffee") == [tea_id]
        forget(store.write_deps, ALICE, tea_id, hard=True)
        assert store.find_nearest(vectors, "violin") == []
        assert count_fallbacks(vectors) == 0
        assert count_vectors(vectors) == 0, "deleted from Chroma, not only hidden"

    def test_a_revision_leaves_nothing_behind(self, store: ChromaStore) -> None:
        (tea_id,) = store.add("green tea")
        vectors = store.open_vectors()
        for day in range(3):
            revise(store.write_deps, ALICE, tea_id, {"text": f"green tea of day {day}"}, None)
            store.find_nearest(vectors, "tea")
        assert count_vectors(vectors) == 1
        (match,) = vectors.search(EVERYONES, store.embed("tea"))
        assert match.document == "green tea of day 2"

    def test_a_deleted_user_is_found_again_after_a_restore(self, store: ChromaStore) -> None:
        (tea_id,) = store.add("green tea")
        (coffee_id,) = store.add("black coffee", scope=BOB)
        vectors = store.open_vectors()
        deletion.delete(store.records, "user", "acme", "bob", hard=False)
        assert store.find_nearest(vectors, "coffee", scope=Scope(organization="acme")) == [tea_id]
        deletion.restore(store.records, "user", "acme", "bob")
        assert set(store.find_nearest(vectors, "coffee", scope=Scope(organization="acme"))) == {tea_id, coffee_id}
        assert count_fallbacks(vectors) == 0

    def test_records_answer_while_chroma_is_far_behind(self, store: ChromaStore) -> None:
        store.add("green tea")
        vectors = store.open_vectors()
        projection = get_projection(vectors)
        with projection._maintenance_lock:  # the thread that feeds Chroma is busy
            texts = make_sentences(choose_size(510, 700))
            store.add(*texts)
            assert store.find_nearest(vectors, texts[3]) == store.scan_nearest(texts[3])
            assert count_fallbacks(vectors) == 1
        projection.advance()
        assert projection.lag == 0
        assert store.find_nearest(vectors, texts[3], 1) == store.scan_nearest(texts[3], 1)
        assert count_fallbacks(vectors) == 1

    def test_lines_that_were_fed_are_not_fed_again(self, store: ChromaStore) -> None:
        store.add(*make_sentences(50))
        store.open_vectors().close()
        generation = get_generation(store.opened[0])
        store.add("green tea in winter")
        vectors = store.open_vectors()
        assert get_generation(vectors) == generation
        assert store.find_nearest(vectors, "green tea in winter", 1) == store.scan_nearest("green tea in winter", 1)
        assert count_vectors(vectors) == 51

    def test_a_process_that_slept_longer_than_the_feed_is_kept_rebuilds(self, store: ChromaStore) -> None:
        kept_id, forgotten_id = store.add("green tea", "black coffee")
        store.open_vectors().close()
        state = store.opened[0].projection(CollectionSpace(MODEL, DIMENSIONS)).state
        serving = state.get_serving()
        assert serving is not None
        long_ago = clock.now() - timedelta(days=30)
        store.records.commit([Patch(ProjectionState, get_key(serving), {"caught_up_at": long_ago})])
        state.take()  # as a process does that then fails to reach Chroma
        state.release()
        forget(store.write_deps, ALICE, forgotten_id, hard=True)
        (added_id,) = store.add("a violin in the snow")
        lines = store.records.feed(0).lines[:-1]
        store.records.commit([Delete(Outbox, (line.sequence,)) for line in lines])
        vectors = store.open_vectors()
        assert set(store.find_nearest(vectors, "tea")) == {kept_id, added_id}
        assert (count_vectors(vectors), count_fallbacks(vectors)) == (2, 0)

    def test_threads_that_search_and_write_find_their_own_writes(self, store: ChromaStore) -> None:
        store.add(*make_sentences(100))
        vectors, texts_not_found = store.open_vectors(), []

        def work(number: int) -> None:
            for line in range(10):
                text = f"thread {number} wrote line {line} about glass"
                (memory_id,) = store.add(text)
                if store.find_nearest(vectors, text, 1) != [memory_id]:
                    texts_not_found.append(text)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts_not_found == []


class TestTenants:
    def test_equal_texts_stay_separate(self, store: ChromaStore) -> None:
        texts = make_sentences(30)
        own_ids, bobs_ids, other_ids = store.add(*texts), store.add(*texts, scope=BOB), store.add(*texts, scope=OTHER)
        vectors = store.open_vectors()
        for scope, ids in ((ALICE, own_ids), (BOB, bobs_ids), (OTHER, other_ids)):
            assert set(store.find_nearest(vectors, texts[0], 100, scope)) == set(ids)
        assert set(store.find_nearest(vectors, texts[0], 100, Scope(organization="acme"))) == {*own_ids, *bobs_ids}
        assert count_fallbacks(vectors) == 0

    def test_conditions_do_not_reach_other_scopes(self, store: ChromaStore) -> None:
        (own_id,) = store.add("green tea")
        store.add("green tea", scope=OTHER)
        store.add("green tea", scope=BOB)
        vectors = store.open_vectors()
        anywhere = {"$or": [{"organization_id": "other"}, {"user_id": "bob"}, {"type": "observation"}]}
        entries = vectors.search(ALICES, store.embed("green tea"), where=anywhere)
        assert [entry.metadata["owner_id"] for entry in entries] == [own_id]

    def test_wrong_metadata_in_chroma_reveals_no_memory(self, store: ChromaStore) -> None:
        """Chroma says that other users' chunks are ours, and has chunks that never existed."""
        (own_id,) = store.add("green tea")
        (foreign_id,) = store.add("green tea of others", scope=OTHER)
        (bobs_id,) = store.add("green tea of bob", scope=BOB)
        vectors = store.open_vectors()
        claims = {"organization_id": "acme", "user_id": "alice", "owner_id": foreign_id}
        names = [
            make_chunk_id("other", foreign_id, 0, 0),
            make_chunk_id("acme", foreign_id, 0, 0),
            make_chunk_id("acme", bobs_id, 0, 0),
            make_chunk_id("acme", "mem_never", 0, 0),
            make_chunk_id("acme", own_id, 7, 0),
            "nonsense",
        ]
        entries = [ChunkEntry(chunk_name, store.embed("green tea"), "green tea", claims) for chunk_name in names]
        projection = get_projection(vectors)
        name = projection.name(get_generation(vectors))
        vectors._chroma.ask("remove", name, names[:1] + names[2:3])
        vectors._chroma.ask("write", name, entries)
        assert store.find_nearest(vectors, "green tea", 50) == [own_id]
        hits = vectors.search(ALICES, store.embed("green tea"), n_results=50)
        assert [entry.id for entry in hits] == [make_chunk_id("acme", own_id, 0, 0)]
        assert count_fallbacks(vectors) == 0


class TestTwoAtOnce:
    def test_two_processes_see_each_other_s_writes(self, store: ChromaStore) -> None:
        first, second = store.open_vectors(), store.open_vectors()
        assert [get_projection(vectors).state.has_lease for vectors in (first, second)] == [True, False]
        (tea_id,) = store.add("green tea")
        assert store.find_nearest(first, "green tea") == store.find_nearest(second, "green tea") == [tea_id]
        first.close()
        (coffee_id,) = store.add("black coffee")
        assert store.find_nearest(second, "black coffee", 1) == [coffee_id]
        get_projection(second).advance()
        assert get_projection(second).state.has_lease
        fallback_questions = count_fallbacks(second)
        assert store.find_nearest(second, "black coffee", 1) == [coffee_id]
        assert count_fallbacks(second) == fallback_questions

    def test_a_generation_built_by_another_process_is_used(self, store: ChromaStore) -> None:
        store.add(*make_sentences(20))
        first, second = store.open_vectors(), store.open_vectors()
        first.rebuild()
        store.find_nearest(second, "tea")
        get_projection(second).advance()
        assert get_projection(second).attached == get_generation(first)

    def test_two_stores_in_one_chroma_find_only_their_own_memories(self, store: ChromaStore, tmp_path: Path) -> None:
        (tmp_path / "second").mkdir()
        other = ChromaStore.make(tmp_path / "second", store.address)
        try:
            (own_id,), (foreign_id,) = store.add("green tea"), other.add("green tea")
            first_index, second_index = store.open_vectors(), other.open_vectors()
            assert (store.find_nearest(first_index, "tea"), other.find_nearest(second_index, "tea")) == (
                [own_id],
                [foreign_id],
            )
            first_index.rebuild()
            assert other.find_nearest(second_index, "tea") == [foreign_id]
            assert count_fallbacks(second_index) == 0
        finally:
            other.close()


class TestRebuild:
    def test_another_generation_takes_over(self, store: ChromaStore) -> None:
        texts = make_sentences(choose_size(50, 300))
        store.add(*texts)
        vectors = store.open_vectors()
        before, projection = get_generation(vectors), get_projection(vectors)
        vectors.rebuild()
        assert get_generation(vectors) > before
        assert projection.state.list_retired() == []
        assert projection.state.get_building() is None
        assert store.find_nearest(vectors, texts[0], 1) == store.scan_nearest(texts[0], 1)
        assert (count_vectors(vectors), count_fallbacks(vectors)) == (len(texts), 0)

    def test_an_interrupted_rebuild_is_continued(self, store: ChromaStore) -> None:
        texts = make_sentences(choose_size(250, 900))
        store.add(*texts)
        vectors = store.open_vectors()
        projection = get_projection(vectors)
        projection.state.begin(new_generation := clock.micros(clock.now()), store.records.head())
        name = projection.name(new_generation)
        vectors._chroma.ask("create", name)
        (forgotten_id, kept_id) = store.scan_nearest(texts[5], 2)
        projection._content._write(name, "acme", [forgotten_id, kept_id])
        forget(store.write_deps, ALICE, forgotten_id, hard=False)
        vectors.rebuild()
        assert get_generation(vectors) == new_generation
        assert count_vectors(vectors) == len(texts) - 1
        assert store.find_nearest(vectors, texts[5], 1) == [kept_id]


def count_vectors(vectors: ChromaVectors) -> int:
    return int(vectors._chroma.ask("count", get_projection(vectors).name(get_generation(vectors))))


class TestSettings:
    @pytest.mark.parametrize("text", ["chroma://", "chroma:///", "chroma://host:port", "usearch", "chroma+https:///x"])
    def test_an_invalid_address_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidSettings, match="vectors"):
            read_address(text)

    def test_addresses_name_a_folder_or_a_server(self) -> None:
        assert read_address("chroma:////a/b%20c").folder == Path("/a/b c")
        assert read_address("chroma:///a").folder == Path.cwd() / "a"
        assert read_address("chroma://h:90").url == "chroma://h:90"
        assert read_address("chroma+https://h").url == "chroma+https://h:8000"

    def test_without_chroma_the_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "chromadb", None)
        store = ChromaStore.make(tmp_path, "chroma:///x")
        with pytest.raises(MissingExtra, match=r"everhold\[chroma\]"):
            ChromaVectors(store.records, CountingFallback(store.records), read_address("chroma:///x"))
        store.close()


def test_the_doctor_reports_that_chroma_does_not_answer(tmp_path: Path) -> None:
    store = EngineStore("sqlite", f"sqlite:///{tmp_path}/x.db")
    report = store.open(vectors="chroma://127.0.0.1:1").doctor()
    assert ["does not answer" in problem for problem in report.problems] == [True]
    store.close()
