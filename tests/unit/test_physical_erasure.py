"""After a purge and maintenance, the files of a store contain no byte of the purged rows."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from everhold import clock
from everhold.adapters.duckdb import DuckdbOptions, DuckdbRecords
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.errors import StoreBusy
from everhold.model import Memory, Organization, Scope, User
from everhold.ports.records import Records
from everhold.remember.chunks import Chunking
from everhold.remember.forget import forget_all
from everhold.remember.pipeline import WriteDeps, remember
from everhold.remember.scope_rows import ScopeRows
from everhold.schema.operations import Delete
from everhold.testing.fake_embedder import FakeEmbedder

CANARY = "xylophonequartz"
SCOPE = Scope(organization="acme", user="alice")


@pytest.fixture(params=["sqlite", "duckdb"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    if request.param == "sqlite":
        records: Records = SqliteRecords(SqliteOptions(tmp_path / "memory.db", synchronous="NORMAL"))
    else:
        records = DuckdbRecords(DuckdbOptions(tmp_path / "memory.duckdb"))
    yield records
    records.close()


def make_write_deps(records: Records) -> WriteDeps:
    embedder = FakeEmbedder("fake", 16)
    return WriteDeps(records, Chunking(embedder, embedder), ScopeRows(records, strict=False, timezone="UTC"), 1_000_000)


def count_hits(folder: Path, word: str = CANARY) -> dict[str, int]:
    """Return how often a word is in each file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name: hits for path in files if (hits := path.read_bytes().count(word.encode()))}


def fill(records: Records, count: int = 400) -> list[str]:
    """Remember notes and as many secrets, interleaved and of all lengths. Return the ids of the secrets."""
    write_deps = make_write_deps(records)
    secret_ids = []
    for start in range(0, count, 20):
        items = [
            text
            for number in range(start, start + 20)
            for text in (f"Note {number} " + "word " * (number % 60), f"{CANARY} {number} " + "other " * (number % 90))
        ]
        secret_ids += [memory.id for memory in remember(write_deps, SCOPE, items) if CANARY in memory.text]
    return secret_ids


def test_forgotten_rows_leave_no_bytes(records: Records, tmp_path: Path) -> None:
    secret_ids = fill(records)
    assert count_hits(tmp_path)
    assert forget_all(make_write_deps(records), SCOPE, secret_ids, hard=True) == len(secret_ids)
    assert records.maintain(erased=True)
    assert count_hits(tmp_path) == {}
    assert records.count(Memory, "acme") == 400
    remember(make_write_deps(records), SCOPE, ["It goes on"])
    assert records.find_problems() == []
    records.close()
    assert count_hits(tmp_path) == {}


def test_a_purged_user_leaves_no_bytes(records: Records, tmp_path: Path) -> None:
    fill(records, 60)
    records.commit([Delete(User, ("acme", "alice"))])
    assert records.maintain(erased=True)
    assert count_hits(tmp_path) == {}


def test_a_half_read_answer_postpones_physical_erasure(records: Records, tmp_path: Path) -> None:
    secret_ids = fill(records, 200)  # more rows than a store reads ahead
    rows = records.columns(Memory, "acme", ("id",))
    next(rows)
    forget_all(make_write_deps(records), SCOPE, secret_ids, hard=True)
    assert not records.maintain(erased=True)
    assert len(list(rows)) == 399, "the answer is not of the moment when it began"
    assert records.maintain(erased=True)
    assert count_hits(tmp_path) == {}


class TestDuckdb:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[DuckdbRecords]:
        store = DuckdbRecords(DuckdbOptions(tmp_path / "memory.duckdb"))
        yield store
        store.close()

    def test_others_read_and_write_while_the_file_is_replaced(self, store: DuckdbRecords) -> None:
        fill(store, 40)
        stop, failures = threading.Event(), list[BaseException]()

        def work(number: int) -> None:
            try:
                while not stop.is_set():
                    assert store.count(Memory, "acme") >= 80
                    if number and stop.wait(0.01) is False:  # writers take turns, and maintenance waits for its own
                        remember(make_write_deps(store), SCOPE, [f"While it runs {clock.make_id('x')}"])
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            rewritten = [store.maintain(erased=True) for _ in range(5)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert any(rewritten)
        assert store.find_problems() == []

    def test_the_new_file_is_private_and_locked(self, store: DuckdbRecords) -> None:
        fill(store, 20)
        assert store.maintain(erased=True)
        path = store.options.path
        assert path.stat().st_mode & 0o777 == 0o600
        assert sorted(file.name for file in path.parent.iterdir()) == ["memory.duckdb"]
        with pytest.raises(StoreBusy):
            DuckdbRecords(DuckdbOptions(path))

    def test_files_that_a_crash_left_are_removed(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.duckdb"
        store = DuckdbRecords(DuckdbOptions(path))
        secret_ids = fill(store, 20)
        with duckdb.connect(str(tmp_path / "copy")) as copy:
            copy.execute(f"CREATE TABLE left_over AS SELECT '{CANARY}' AS word")
        (tmp_path / "copy").replace(tmp_path / "memory.duckdb.rewrite")
        store.close()
        store = DuckdbRecords(DuckdbOptions(path))
        assert not (tmp_path / "memory.duckdb.rewrite").exists()
        assert store.count(Memory, "acme") == 40
        forget_all(make_write_deps(store), SCOPE, secret_ids, hard=True)
        assert store.maintain(erased=True)
        assert store.count(Organization, None) == 1
        store.close()
        assert count_hits(tmp_path) == {}


def test_the_full_text_index_of_sqlite_forgets_terms(tmp_path: Path) -> None:
    store = SqliteRecords(SqliteOptions(tmp_path / "memory.db", synchronous="NORMAL"))
    secret_ids = fill(store)
    store.maintain()
    forget_all(make_write_deps(store), SCOPE, secret_ids, hard=True)
    assert store.maintain(erased=True)
    store.query("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, chunk_words, row)", ())
    terms = {term for (term,) in store.query("SELECT term FROM terms", ())}
    assert "word" in terms
    assert not [term for term in terms if term.startswith(CANARY[:8])]
    store.close()


REUSE_MEMORY = """
import ctypes
from everhold.adapters.chroma.process import overwrite_freed_memory

overwrite_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
freed = library.malloc(5000)
ctypes.memset(freed, ord("A"), 5000)
library.free(freed)
print(ctypes.string_at(library.malloc(5000), 5000).count(b"A"))
"""


def test_the_process_of_chroma_writes_no_freed_memory_into_its_files() -> None:
    result = subprocess.run([sys.executable, "-c", REUSE_MEMORY], capture_output=True, check=True, timeout=120)
    assert result.stdout.strip() == b"0"
