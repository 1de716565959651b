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
from tests.chroma_store import DIMENSIONS, MODEL, SECONDS, Store, fallbacks, get_generation, get_projection, sentences
from tests.servers.chroma import ChromaServer


@pytest.fixture
def store(chroma_server: ChromaServer, tmp_path: Path) -> Iterator[Store]:
    store = Store.make(tmp_path, chroma_server.url)
    yield store
    store.close()


@pytest.fixture
def folder_store(tmp_path: Path) -> Iterator[Store]:
    store = Store.make(tmp_path, f"chroma:///{tmp_path / 'chroma'}")
    yield store
    store.close()


@pytest.fixture
def postgres_store(chroma_server: ChromaServer, tmp_path: Path, postgres_url: str) -> Iterator[Store]:
    records = PostgresRecords(PostgresOptions(postgres_url))
    store = Store.make(tmp_path, chroma_server.url, records)
    yield store
    store.close()


@contextmanager
def hold_transaction(url: str) -> Iterator[None]:
    """Hold a transaction open that has written but not committed; the feed's position stays before that transaction."""
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_current_xact_id()")
        yield


def run_before(do: Callable[[], object], call_wrapped: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        do()
        return call_wrapped(*arguments, **options)

    return call


class InterceptedChroma:
    """Chroma, with a function that is called before each request with a certain verb."""

    def __init__(self, chroma: Any, verb: str, do: Callable[[], object]) -> None:
        self._chroma, self._verb, self._do = chroma, verb, do

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chroma, name)

    def ask(self, verb: str, *arguments: Any) -> Any:
        if verb == self._verb:
            self._do()
        return self._chroma.ask(verb, *arguments)


class TestBesideWriters:
    @pytest.mark.parametrize("moment", ["before the head is read", "before samples are taken"])
    def test_a_commit_during_a_check_is_not_reported_as_a_difference(
        self, store: Store, moment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vectors = store.vectors()
        proved, generation = get_projection(vectors), get_generation(vectors)
        texts = iter(sentences(400))
        add = lambda: store.add(*(next(texts) for _ in range(20)))  # noqa: E731
        with proved._maintenance_lock:
            if moment == "before the head is read":
                monkeypatch.setattr(store.records, "head", run_before(add, store.records.head))
            else:
                monkeypatch.setattr(rows, "read_sample", run_before(add, rows.read_sample))
            proved._check_at = clock.EPOCH
            proved.advance()
            monkeypatch.undo()
        assert get_generation(vectors) == generation
        assert vectors.find_problems() == []

    def test_a_commit_during_an_older_transaction_is_not_reported_as_a_difference(
        self, postgres_store: Store, postgres_url: str
    ) -> None:
        vectors = postgres_store.vectors()
        proved, generation = get_projection(vectors), get_generation(vectors)
        texts = iter(sentences(100))
        with proved._maintenance_lock, hold_transaction(postgres_url):
            content, chroma = proved._content, proved._content._chroma
            content._chroma = InterceptedChroma(chroma, "count", lambda: postgres_store.add(next(texts)))  # type: ignore[assignment]
            proved._check_at = clock.EPOCH
            proved.advance()
            content._chroma = chroma
        assert get_generation(vectors) == generation
        assert vectors.find_problems() == []

    def test_rows_that_a_search_adds_during_a_check_are_not_removed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, *_ = store.add(*sentences(5))
        vectors = store.vectors()
        proved, generation = get_projection(vectors), get_generation(vectors)
        name, list_chunk_ids = proved.name(generation), rows.list_chunk_ids
        answers: list[tuple[list[str], list[str]]] = []

        def names(*arguments: Any) -> set[str]:
            result = list_chunk_ids(*arguments)
            if not answers:
                asking = threading.Thread(
                    target=lambda: answers.append((store.add("a violin"), store.nearest(vectors, "a violin", 1)))
                )
                asking.start()
                asking.join()
            return result

        with proved._maintenance_lock:
            vectors._chroma.ask("remove", name, [f"acme/{first}/0/0"])
            monkeypatch.setattr(rows, "list_chunk_ids", names)
            proved._check_at = clock.EPOCH
            proved.advance()
        [(added, hits)] = answers
        assert hits == added
        questions = fallbacks(vectors)
        assert store.nearest(vectors, "a violin", 1) == added
        assert (fallbacks(vectors), get_generation(vectors)) == (questions, generation)
        assert vectors._chroma.ask("count", name) == 6

    def test_applied_lines_are_remembered_only_while_the_feed_repeats_them(self, postgres_store: Store) -> None:
        vectors = postgres_store.vectors()
        for text in sentences(30):
            (memory,) = postgres_store.add(text)
            assert postgres_store.nearest(vectors, text, 1) == [memory]
        assert len(get_projection(vectors)._follower._applied) < 10

    def test_more_than_a_page_is_fed_while_an_older_transaction_runs(
        self, postgres_store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(projection, "_MAX_INLINE_LINES", 4)
        monkeypatch.setattr(projection, "PAGE", 5)
        vectors = postgres_store.vectors()
        fed = get_projection(vectors)
        with fed._maintenance_lock:
            with hold_transaction(postgres_url):
                for text in sentences(12):
                    postgres_store.add(text)
                fed.follow()
                assert fed.lag == 0
            (memory,) = postgres_store.add("green tea in winter")
            assert postgres_store.nearest(vectors, "green tea in winter", 1) == [memory]
            fed.follow()
            fallback_questions = fallbacks(vectors)
            assert postgres_store.nearest(vectors, "green tea in winter", 1) == [memory]
            assert (fed.lag, fallbacks(vectors)) == (0, fallback_questions)


class LosingIndex:
    """Chroma with an index that has lost some entries. A search does not find them until they are written again."""

    def __init__(self, chroma: Any, owner_ids: Iterable[str], *, forever: bool = False) -> None:
        self._chroma, self._lost, self._forever = chroma, set(owner_ids), forever

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chroma, name)

    def ask(self, verb: str, *given: Any) -> Any:
        answer = self._chroma.ask(verb, *given)
        match verb:
            case "replace" if not self._forever:
                self._lost.difference_update(given[2])
            case "nearest":
                return [match for match in answer if parse_owner_id(match.id) not in self._lost]
            case "find_unreachable":
                return [f"acme/{owner_id}/0/0" for owner_id in sorted(self._lost)]
        return answer


class TestLostEntries:
    """HNSW loses entries when others are deleted and added: Chroma still has them, but no search finds them."""

    @pytest.fixture
    def lost(self, store: Store) -> list[str]:
        return store.add(*sentences(40))[10:12]

    @contextmanager
    def lose(self, vectors: ChromaVectors, lost: list[str], *, forever: bool = False) -> Iterator[Projection]:
        losing = get_projection(vectors)
        with losing._maintenance_lock:
            losing._chroma = losing._content._chroma = LosingIndex(  # type: ignore[assignment]
                vectors._chroma, lost, forever=forever
            )
            yield losing

    def test_a_search_for_all_writes_them_again(self, store: Store, lost: list[str]) -> None:
        vectors = store.vectors()
        with self.lose(vectors, lost):
            assert not {*lost} & {*store.nearest(vectors, "tea", 30)}
            assert len(store.nearest(vectors, "tea", 40)) == 40
            assert {*lost} <= {*store.nearest(vectors, "tea", 40)}
        assert fallbacks(vectors) == 0

    def test_a_check_writes_them_again(self, store: Store, lost: list[str]) -> None:
        vectors = store.vectors()
        with self.lose(vectors, lost) as losing:
            losing._check_at = clock.EPOCH
            losing.advance()
            assert store.nearest(vectors, "tea", 39) == store.scan_texts("tea", 39)
        assert fallbacks(vectors) == 0

    def test_many_are_damage(self, store: Store) -> None:
        lost = store.add(*sentences(40))[10:20]
        vectors = store.vectors()
        generation = get_generation(vectors)
        damaged = pytest.raises(Damaged, match="does not find 10 of 40 chunks")
        with self.lose(vectors, lost, forever=True) as losing, damaged:
            losing._content.rewrite_unreachable(losing.name(generation))

    @pytest.mark.parametrize("why", ["another process has the lease", "they stay lost"])
    def test_otherwise_the_store_answers(
        self, store: Store, lost: list[str], why: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vectors = store.vectors()
        with self.lose(vectors, lost, forever=why == "they stay lost") as losing:
            if why == "another process has the lease":
                monkeypatch.setattr(losing.state, "_lease_until", None)
            assert store.nearest(vectors, "tea", 40) == store.scan_texts("tea", 40)
            monkeypatch.undo()
        assert fallbacks(vectors) == 1


class TestBesideAnotherProcess:
    def test_a_check_condemns_only_the_generation_that_it_read(self, store: Store) -> None:
        store.add(*sentences(5))
        first, second = store.vectors(), store.vectors()
        reader, chroma = get_projection(second), second._chroma
        rebuilding = iter([first.rebuild])

        def rebuild_once() -> None:
            next(rebuilding, list)()

        with reader._maintenance_lock:
            reader.attached = None
            reader._chroma = InterceptedChroma(chroma, "count", rebuild_once)  # type: ignore[assignment]
            with pytest.raises(Damaged):
                reader.advance()
            reader._chroma = chroma
            reader.advance()
            assert reader.attached == get_generation(first)

    @pytest.mark.parametrize("built", [True, False])
    def test_a_process_that_cannot_open_the_folder_leaves_the_lease_to_others(
        self, folder_store: Store, built: bool
    ) -> None:
        vectors = folder_store.vectors()
        feeding = get_projection(vectors)
        shut_out = ChromaProcess(vectors._chroma.address, 10.0)
        prefix = "memories" if built else "others"
        space = CollectionSpace(MODEL, DIMENSIONS)
        second = Projection(
            folder_store.records, shut_out, space, prefix=prefix, batch=200, lease_seconds=600, is_stopped=lambda: False
        )
        try:
            with feeding._maintenance_lock:
                feeding.state.release()
                with pytest.raises(Unavailable, match="in use by another process"):
                    second.advance()
                assert not second.state.has_lease
                feeding.advance()
                assert feeding.state.has_lease
        finally:
            shut_out._end(kill=True)


@pytest.mark.parametrize("what", ["no program", "no descriptors"])
def test_a_chroma_process_that_cannot_be_started_is_reported(
    folder_store: Store, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_too_many_files() -> None:
        raise OSError(24, "Too many open files")

    (tea,) = folder_store.add("green tea")
    vectors = folder_store.vectors()
    with get_projection(vectors)._maintenance_lock:
        vectors._chroma._end(kill=True)
        if what == "no program":
            monkeypatch.setattr(sys, "executable", "/nowhere/python")
        else:
            monkeypatch.setattr(connection, "Pipe", raise_too_many_files)
        assert folder_store.nearest(vectors, "tea") == [tea]
        assert fallbacks(vectors) == 1
        assert "cannot be started" in vectors.find_problems()[0]
        monkeypatch.undo()
    assert vectors.wait(SECONDS)
    assert folder_store.nearest(vectors, "tea") == [tea]
    assert fallbacks(vectors) == 1
