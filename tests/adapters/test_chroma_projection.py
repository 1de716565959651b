"""A collection in Chroma beside writers, other processes and old transactions: a healthy collection is not rebuilt."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everhold import clock
from everhold.adapters.chroma import ChromaVectors, connection, projection, rows
from everhold.adapters.chroma.connection import ChromaProcess
from everhold.adapters.chroma.failures import Damaged, Unavailable
from everhold.adapters.chroma.projection import Projection
from everhold.adapters.chroma.rows import CollectionSpace
from everhold.adapters.chroma.search import parse_owner_id
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from tests.chroma_store import (
    DIMENSIONS,
    MODEL,
    SECONDS,
    ChromaStore,
    count_fallbacks,
    get_generation,
    get_projection,
    make_sentences,
)
from tests.servers.chroma import ChromaServer


@pytest.fixture
def store(chroma_server: ChromaServer, tmp_path: Path) -> Iterator[ChromaStore]:
    store = ChromaStore.make(tmp_path, chroma_server.url)
    yield store
    store.close()


@pytest.fixture
def folder_store(tmp_path: Path) -> Iterator[ChromaStore]:
    store = ChromaStore.make(tmp_path, f"chroma:///{tmp_path / 'chroma'}")
    yield store
    store.close()


@pytest.fixture
def postgres_store(chroma_server: ChromaServer, tmp_path: Path, postgres_url: str) -> Iterator[ChromaStore]:
    records = PostgresRecords(PostgresOptions(postgres_url))
    store = ChromaStore.make(tmp_path, chroma_server.url, records)
    yield store
    store.close()


@contextmanager
def hold_transaction(url: str) -> Iterator[None]:
    """Hold a transaction open that has written but not committed; the feed's position stays before that transaction."""
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_current_xact_id()")
        yield


def run_before(action: Callable[[], object], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        action()
        return function(*arguments, **options)

    return call


class InterceptedChroma:
    """Chroma, with an action that is performed before each request with a certain verb."""

    def __init__(self, chroma: Any, verb: str, action: Callable[[], object]) -> None:
        self._chroma, self._verb, self._action = chroma, verb, action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chroma, name)

    def ask(self, verb: str, *arguments: Any) -> Any:
        if verb == self._verb:
            self._action()
        return self._chroma.ask(verb, *arguments)


class TestBesideWriters:
    @pytest.mark.parametrize("moment", ["before the head is read", "before samples are taken"])
    def test_a_commit_during_a_check_is_not_reported_as_a_difference(
        self, store: ChromaStore, moment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vectors = store.open_vectors()
        chroma_projection, generation = get_projection(vectors), get_generation(vectors)
        texts = iter(make_sentences(400))
        add = lambda: store.add(*(next(texts) for _ in range(20)))  # noqa: E731
        with chroma_projection._maintenance_lock:
            if moment == "before the head is read":
                monkeypatch.setattr(store.records, "head", run_before(add, store.records.head))
            else:
                monkeypatch.setattr(rows, "read_sample", run_before(add, rows.read_sample))
            chroma_projection._check_at = clock.EPOCH
            chroma_projection.advance()
            monkeypatch.undo()
        assert get_generation(vectors) == generation
        assert vectors.find_problems() == []

    def test_a_commit_during_an_older_transaction_is_not_reported_as_a_difference(
        self, postgres_store: ChromaStore, postgres_url: str
    ) -> None:
        vectors = postgres_store.open_vectors()
        chroma_projection, generation = get_projection(vectors), get_generation(vectors)
        texts = iter(make_sentences(100))
        with chroma_projection._maintenance_lock, hold_transaction(postgres_url):
            content, chroma = chroma_projection._content, chroma_projection._content._chroma
            content._chroma = InterceptedChroma(chroma, "count", lambda: postgres_store.add(next(texts)))  # type: ignore[assignment]
            chroma_projection._check_at = clock.EPOCH
            chroma_projection.advance()
            content._chroma = chroma
        assert get_generation(vectors) == generation
        assert vectors.find_problems() == []

    def test_rows_that_a_search_adds_during_a_check_are_not_removed(
        self, store: ChromaStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, *_ = store.add(*make_sentences(5))
        vectors = store.open_vectors()
        chroma_projection, generation = get_projection(vectors), get_generation(vectors)
        name, list_chunk_ids = chroma_projection.name(generation), rows.list_chunk_ids
        answers: list[tuple[list[str], list[str]]] = []

        def list_ids_during_search(*arguments: Any) -> set[str]:
            result = list_chunk_ids(*arguments)
            if not answers:
                searcher = threading.Thread(
                    target=lambda: answers.append((store.add("a violin"), store.find_nearest(vectors, "a violin", 1)))
                )
                searcher.start()
                searcher.join()
            return result

        with chroma_projection._maintenance_lock:
            vectors._chroma.ask("remove", name, [f"acme/{first}/0/0"])
            monkeypatch.setattr(rows, "list_chunk_ids", list_ids_during_search)
            chroma_projection._check_at = clock.EPOCH
            chroma_projection.advance()
        [(added, hits)] = answers
        assert hits == added
        questions = count_fallbacks(vectors)
        assert store.find_nearest(vectors, "a violin", 1) == added
        assert (count_fallbacks(vectors), get_generation(vectors)) == (questions, generation)
        assert vectors._chroma.ask("count", name) == 6

    def test_applied_lines_are_remembered_only_while_the_feed_repeats_them(self, postgres_store: ChromaStore) -> None:
        vectors = postgres_store.open_vectors()
        for text in make_sentences(30):
            (memory_id,) = postgres_store.add(text)
            assert postgres_store.find_nearest(vectors, text, 1) == [memory_id]
        assert len(get_projection(vectors)._follower._applied) < 10

    def test_more_than_a_page_is_fed_while_an_older_transaction_runs(
        self, postgres_store: ChromaStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(projection, "_MAX_INLINE_LINES", 4)
        monkeypatch.setattr(projection, "PAGE", 5)
        vectors = postgres_store.open_vectors()
        chroma_projection = get_projection(vectors)
        with chroma_projection._maintenance_lock:
            with hold_transaction(postgres_url):
                for text in make_sentences(12):
                    postgres_store.add(text)
                chroma_projection.follow()
                assert chroma_projection.lag == 0
            (memory_id,) = postgres_store.add("green tea in winter")
            assert postgres_store.find_nearest(vectors, "green tea in winter", 1) == [memory_id]
            chroma_projection.follow()
            fallback_questions = count_fallbacks(vectors)
            assert postgres_store.find_nearest(vectors, "green tea in winter", 1) == [memory_id]
            assert (chroma_projection.lag, count_fallbacks(vectors)) == (0, fallback_questions)


class LosingIndex:
    """Chroma with an index that has lost some entries. A search does not find them until they are written again."""

    def __init__(self, chroma: Any, owner_ids: Iterable[str], *, forever: bool = False) -> None:
        self._chroma, self._lost, self._forever = chroma, set(owner_ids), forever

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chroma, name)

    def ask(self, verb: str, *arguments: Any) -> Any:
        answer = self._chroma.ask(verb, *arguments)
        match verb:
            case "replace" if not self._forever:
                self._lost.difference_update(arguments[2])
            case "nearest":
                return [match for match in answer if parse_owner_id(match.id) not in self._lost]
            case "find_unreachable":
                return [f"acme/{owner_id}/0/0" for owner_id in sorted(self._lost)]
        return answer


class TestLostEntries:
    """HNSW loses entries when others are deleted and added: Chroma still has them, but no search finds them."""

    @pytest.fixture
    def lost_ids(self, store: ChromaStore) -> list[str]:
        return store.add(*make_sentences(40))[10:12]

    @contextmanager
    def lose(self, vectors: ChromaVectors, lost_ids: list[str], *, forever: bool = False) -> Iterator[Projection]:
        chroma_projection = get_projection(vectors)
        with chroma_projection._maintenance_lock:
            chroma_projection._chroma = chroma_projection._content._chroma = LosingIndex(  # type: ignore[assignment]
                vectors._chroma, lost_ids, forever=forever
            )
            yield chroma_projection

    def test_a_search_for_all_rewrites_lost_entries(self, store: ChromaStore, lost_ids: list[str]) -> None:
        vectors = store.open_vectors()
        with self.lose(vectors, lost_ids):
            assert not {*lost_ids} & {*store.find_nearest(vectors, "tea", 30)}
            assert len(store.find_nearest(vectors, "tea", 40)) == 40
            assert {*lost_ids} <= {*store.find_nearest(vectors, "tea", 40)}
        assert count_fallbacks(vectors) == 0

    def test_a_check_rewrites_lost_entries(self, store: ChromaStore, lost_ids: list[str]) -> None:
        vectors = store.open_vectors()
        with self.lose(vectors, lost_ids) as chroma_projection:
            chroma_projection._check_at = clock.EPOCH
            chroma_projection.advance()
            assert store.find_nearest(vectors, "tea", 39) == store.scan_nearest("tea", 39)
        assert count_fallbacks(vectors) == 0

    def test_many_lost_entries_are_damage(self, store: ChromaStore) -> None:
        lost_ids = store.add(*make_sentences(40))[10:20]
        vectors = store.open_vectors()
        generation = get_generation(vectors)
        damaged = pytest.raises(Damaged, match="does not find 10 of 40 chunks")
        with self.lose(vectors, lost_ids, forever=True) as chroma_projection, damaged:
            chroma_projection._content.rewrite_unreachable(chroma_projection.name(generation))

    @pytest.mark.parametrize("cause", ["another process has the lease", "they stay lost"])
    def test_the_store_answers_while_entries_are_lost(
        self, store: ChromaStore, lost_ids: list[str], cause: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vectors = store.open_vectors()
        with self.lose(vectors, lost_ids, forever=cause == "they stay lost") as chroma_projection:
            if cause == "another process has the lease":
                monkeypatch.setattr(chroma_projection.state, "_lease_until", None)
            assert store.find_nearest(vectors, "tea", 40) == store.scan_nearest("tea", 40)
            monkeypatch.undo()
        assert count_fallbacks(vectors) == 1


class TestBesideAnotherProcess:
    def test_a_check_rejects_only_the_generation_that_it_read(self, store: ChromaStore) -> None:
        store.add(*make_sentences(5))
        first, second = store.open_vectors(), store.open_vectors()
        second_projection, chroma = get_projection(second), second._chroma
        rebuilds = iter([first.rebuild])

        def rebuild_once() -> None:
            for rebuild in rebuilds:  # the iterator is empty from the second call on
                rebuild()

        with second_projection._maintenance_lock:
            second_projection.attached = None
            second_projection._chroma = InterceptedChroma(chroma, "count", rebuild_once)  # type: ignore[assignment]
            with pytest.raises(Damaged):
                second_projection.advance()
            second_projection._chroma = chroma
            second_projection.advance()
            assert second_projection.attached == get_generation(first)

    @pytest.mark.parametrize("is_built", [True, False])
    def test_a_process_that_cannot_open_the_folder_leaves_the_lease_to_others(
        self, folder_store: ChromaStore, is_built: bool
    ) -> None:
        vectors = folder_store.open_vectors()
        chroma_projection = get_projection(vectors)
        excluded_process = ChromaProcess(vectors._chroma.address, 10.0)
        prefix = "memories" if is_built else "others"
        space = CollectionSpace(MODEL, DIMENSIONS)
        second = Projection(
            folder_store.records,
            excluded_process,
            space,
            prefix=prefix,
            batch=200,
            lease_seconds=600,
            is_stopped=lambda: False,
        )
        try:
            with chroma_projection._maintenance_lock:
                chroma_projection.state.release()
                with pytest.raises(Unavailable, match="in use by another process"):
                    second.advance()
                assert not second.state.has_lease
                chroma_projection.advance()
                assert chroma_projection.state.has_lease
        finally:
            excluded_process._end(kill=True)


@pytest.mark.parametrize("missing", ["no program", "no descriptors"])
def test_a_chroma_process_that_cannot_be_started_is_reported(
    folder_store: ChromaStore, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_too_many_files() -> None:
        raise OSError(24, "Too many open files")

    (tea_id,) = folder_store.add("green tea")
    vectors = folder_store.open_vectors()
    with get_projection(vectors)._maintenance_lock:
        vectors._chroma._end(kill=True)
        if missing == "no program":
            monkeypatch.setattr(sys, "executable", "/nowhere/python")
        else:
            monkeypatch.setattr(connection, "Pipe", raise_too_many_files)
        assert folder_store.find_nearest(vectors, "tea") == [tea_id]
        assert count_fallbacks(vectors) == 1
        assert "cannot be started" in vectors.find_problems()[0]
        monkeypatch.undo()
    assert vectors.wait(SECONDS)
    assert folder_store.find_nearest(vectors, "tea") == [tea_id]
    assert count_fallbacks(vectors) == 1
