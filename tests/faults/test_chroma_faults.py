"""When Chroma fails, the records answer until Chroma is repaired, which happens automatically."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everhold.adapters.chroma import ChromaVectors
from everhold.adapters.chroma.connection import ChromaProcess
from everhold.adapters.chroma.failures import CannotAnswer
from tests.chroma_store import (
    SECONDS,
    ChromaStore,
    count_fallbacks,
    damage_file,
    get_generation,
    get_projection,
    make_sentences,
)
from tests.servers.chroma import ChromaServer

pytestmark = pytest.mark.crash
# Chroma writes index files once a collection has 1,000 documents.
TEXTS = make_sentences(1300)
QUESTIONS = TEXTS[::130]
INDEX_FILES = ("data_level0.bin", "header.bin", "length.bin", "link_lists.bin", "index_metadata.pickle")


@pytest.fixture(scope="session")
def template_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a filled store and its Chroma. Each test gets a copy, because filling takes longer than a test."""
    folder = tmp_path_factory.mktemp("folder_store")
    fill(folder / "used", f"chroma:///{folder / 'used' / 'chroma'}")
    (folder / "used").rename(folder / "filled")
    return folder


@pytest.fixture(scope="session")
def template_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ChromaServer, Path]]:
    """A server, and a folder with its data and a filled store, which are copied for each test."""
    folder = tmp_path_factory.mktemp("server_store") / "filled"
    with ChromaServer() as server:
        fill(folder, server.url)
        server.kill()
        shutil.copytree(server.folder, folder / "chroma")
        yield server, folder


def fill(folder: Path, address: str) -> None:
    folder.mkdir()
    store = ChromaStore.make(folder, address)
    store.add(*TEXTS)
    store.open_vectors()
    store.close()


@pytest.fixture
def folder_store(template_folder: Path) -> Iterator[ChromaStore]:
    folder = template_folder / "used"  # the same path in each test, because the records store the path of Chroma
    shutil.copytree(template_folder / "filled", folder)
    store = ChromaStore.make(folder, f"chroma:///{folder / 'chroma'}")
    yield store
    store.close()
    shutil.rmtree(folder)


@pytest.fixture
def server(template_server: tuple[ChromaServer, Path]) -> Iterator[ChromaServer]:
    server, folder = template_server
    shutil.rmtree(server.folder, ignore_errors=True)
    shutil.copytree(folder / "chroma", server.folder)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server_store(
    server: ChromaServer, template_server: tuple[ChromaServer, Path], tmp_path: Path
) -> Iterator[ChromaStore]:
    shutil.copy(template_server[1] / "memory.db", tmp_path)
    store = ChromaStore.make(tmp_path, server.url)
    yield store
    store.close()


def assert_right(store: ChromaStore, vectors: ChromaVectors) -> None:
    """Check that searches return the right memories, whether Chroma or the records answer."""
    for text in QUESTIONS:
        assert store.find_nearest(vectors, text, 1) == store.scan_nearest(text, 1)


def assert_healthy(store: ChromaStore, vectors: ChromaVectors) -> None:
    """Check that Chroma itself answers, that its answers are right, and that no problem is reported."""
    assert vectors.wait(SECONDS), vectors.find_problems()
    before = count_fallbacks(vectors)
    assert_right(store, vectors)
    assert count_fallbacks(vectors) == before
    assert vectors.find_problems() == []


def list_files(folder: Path, names: tuple[str, ...]) -> list[Path]:
    paths = [path for path in folder.rglob("*") if path.name in names]
    assert paths, "Chroma has written no such file"
    return paths


def damage_files(names: tuple[str, ...], extent: str) -> Callable[[Path], None]:
    """Return a function that overwrites the files with these names in a folder."""

    def damage(folder: Path) -> None:
        for path in list_files(folder, names):
            damage_file(path, extent)

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "zeroed": damage_files(INDEX_FILES, "zero"),
    **{f"zeroed {name}": damage_files((name,), "zero") for name in INDEX_FILES},
    "half the vectors": damage_files(("data_level0.bin",), "half"),
    "zeroed database": damage_files(("chroma.sqlite3",), "zero"),
    "gone": shutil.rmtree,
}


@pytest.mark.xdist_group("chroma_folder_store")
@pytest.mark.xdist_group("chroma folder")
class TestFolder:
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_folder_damaged_while_closed_is_rebuilt(self, folder_store: ChromaStore, damage: str) -> None:
        """Damage is noticed before the files are read: some would end the reading process, some hide documents."""
        before = folder_store.serving_generation
        DAMAGES[damage](folder_store.folder / "chroma")
        vectors = folder_store.open_vectors(wait=False)
        assert_right(folder_store, vectors)
        assert_healthy(folder_store, vectors)
        assert get_generation(vectors) > before

    @pytest.mark.parametrize("damage", ["zeroed", "zeroed link_lists.bin", "zeroed database", "gone"])
    def test_a_folder_damaged_while_open_is_rebuilt(self, folder_store: ChromaStore, damage: str) -> None:
        vectors = folder_store.open_vectors()
        before = get_generation(vectors)
        assert_right(folder_store, vectors)
        DAMAGES[damage](folder_store.folder / "chroma")
        assert_right(folder_store, vectors)
        assert count_fallbacks(vectors), "the damage was noticed"
        folder_store.add("green tea in the winter garden")
        assert_healthy(folder_store, vectors)
        assert get_generation(vectors) > before

    def test_a_folder_that_was_closed_is_opened_again(self, folder_store: ChromaStore) -> None:
        before = folder_store.serving_generation
        vectors = folder_store.open_vectors()
        assert_healthy(folder_store, vectors)
        assert get_generation(vectors) == before

    def test_a_folder_is_rebuilt_after_its_process_is_killed(self, folder_store: ChromaStore) -> None:
        vectors = folder_store.open_vectors()
        before = get_generation(vectors)
        kill_process(vectors)
        assert_right(folder_store, vectors)
        assert vectors.find_problems() or vectors.serves
        assert_healthy(folder_store, vectors)
        assert get_generation(vectors) > before, "a folder that was not closed is rebuilt"

    def test_a_process_killed_several_times_is_replaced(self, folder_store: ChromaStore) -> None:
        vectors = folder_store.open_vectors(wait=False)
        for _ in range(3):
            process = wait_for(lambda: vectors._chroma.process_id)
            os.kill(process, signal.SIGKILL)
            assert_right(folder_store, vectors)
            wait_for(lambda process=process: vectors._chroma.process_id not in (None, process))
        assert_healthy(folder_store, vectors)

    def test_a_second_process_on_a_folder_is_refused(self, folder_store: ChromaStore) -> None:
        """Two processes would damage a folder, so the second one is refused."""
        vectors = folder_store.open_vectors()
        second = ChromaProcess(vectors._chroma.address, 10.0)
        with pytest.raises(CannotAnswer, match="in use by another process"):
            second.ask("count", get_projection(vectors).name(get_generation(vectors)))
        second._end(kill=True)
        assert_healthy(folder_store, vectors)

    def test_a_process_that_hangs_is_replaced(self, folder_store: ChromaStore) -> None:
        vectors = folder_store.open_vectors()
        vectors._chroma._seconds = 0.5
        process = vectors._chroma.process_id
        assert process is not None
        os.kill(process, signal.SIGSTOP)
        assert_right(folder_store, vectors)
        vectors._chroma._seconds = 10.0
        assert_healthy(folder_store, vectors)
        assert vectors._chroma.process_id != process


@pytest.mark.xdist_group("chroma_server_store")
@pytest.mark.xdist_group("chroma server")
class TestServer:
    def test_a_server_is_used_again_after_it_restarts(self, server_store: ChromaStore, server: ChromaServer) -> None:
        vectors = server_store.open_vectors()
        before = get_generation(vectors)
        server.kill()
        assert_right(server_store, vectors)
        (added,) = server_store.add("a letter about glass bridges")
        assert server_store.find_nearest(vectors, "a letter about glass bridges", 1) == [added]
        wait_for(vectors.find_problems)
        server.start()
        assert_healthy(server_store, vectors)
        assert server_store.find_nearest(vectors, "a letter about glass bridges", 1) == [added]
        assert get_generation(vectors) == before, "its data was right, so nothing was rebuilt"

    def test_a_server_that_starts_later_is_used(self, server: ChromaServer, tmp_path: Path) -> None:
        server.kill()
        shutil.rmtree(server.folder)
        store = ChromaStore.make(tmp_path, server.url)
        store.add(*TEXTS[:200])
        vectors = store.open_vectors(wait=False)
        assert_right(store, vectors)
        wait_for(vectors.find_problems)
        server.start()
        assert_healthy(store, vectors)
        store.close()

    @pytest.mark.parametrize("damage", ["zeroed", "zeroed link_lists.bin", "zeroed data_level0.bin"])
    def test_a_server_with_overwritten_index_files_is_filled_again(
        self, server_store: ChromaStore, server: ChromaServer, damage: str
    ) -> None:
        vectors = server_store.open_vectors()
        before = get_generation(vectors)
        server.kill()
        DAMAGES[damage](server.folder)
        deadline = time.monotonic() + SECONDS
        while get_generation(vectors) == before and time.monotonic() < deadline:
            server.start()  # again and again, because a damaged index ends the server
            assert_right(server_store, vectors)
            time.sleep(0.05)
        assert_healthy(server_store, vectors)
        assert get_generation(vectors) > before

    def test_a_server_that_lost_all_data_is_filled_again(self, server_store: ChromaStore, server: ChromaServer) -> None:
        vectors = server_store.open_vectors()
        before = get_generation(vectors)
        server.kill()
        shutil.rmtree(server.folder)
        server.start()
        assert_right(server_store, vectors)
        assert_healthy(server_store, vectors)
        assert get_generation(vectors) > before

    def test_a_server_that_lost_some_data_is_filled_again(self, server_store: ChromaStore) -> None:
        """Chroma reports no error, but the counts differ from the records."""
        vectors = server_store.open_vectors()
        name = get_projection(vectors).name(get_generation(vectors))
        ids = vectors._chroma.ask("list_ids", name, "acme")
        vectors._chroma.ask("remove", name, ids[:200])
        vectors.close()
        reopened = server_store.open_vectors()
        assert reopened._chroma.ask("count", name) == len(TEXTS)
        assert_healthy(server_store, reopened)


REBUILD = """
    import sys
    from pathlib import Path
    from tests.chroma_store import ChromaStore
    store = ChromaStore.make(Path(sys.argv[1]), sys.argv[2])
    store.open_vectors(lease_seconds=2.0, batch=10).rebuild()
    print("was not killed", flush=True)
"""


@pytest.mark.parametrize(
    "store_fixture",
    [
        pytest.param(store_fixture, marks=pytest.mark.xdist_group(f"chroma_{store_fixture}"))
        for store_fixture in ("folder_store", "server_store")
    ],
)
def test_a_rebuild_that_was_killed_is_completed(store_fixture: str, request: pytest.FixtureRequest) -> None:
    store: ChromaStore = request.getfixturevalue(store_fixture)
    first = store.open_vectors(lease_seconds=2.0)
    before, projection = get_generation(first), get_projection(first)
    first.close()
    program = [sys.executable, "-c", textwrap.dedent(REBUILD), str(store.folder), store.address]
    process = subprocess.Popen(program, cwd=Path(__file__).parents[2])
    building = wait_for(projection.state.get_building)
    process.kill()
    process.wait()
    assert get_generation(first) == before
    vectors = store.open_vectors(lease_seconds=2.0)
    assert_healthy(store, vectors)
    assert get_generation(vectors) == before, "the old generation is still searched"
    wait_for(get_projection(vectors).state.take)
    vectors.rebuild()
    assert get_generation(vectors) >= building.generation
    assert get_projection(vectors).state.get_building() is None
    assert_healthy(store, vectors)
    assert vectors._chroma.ask("count", get_projection(vectors).name(get_generation(vectors))) == len(TEXTS)


def kill_process(vectors: ChromaVectors) -> None:
    process = vectors._chroma.process_id
    assert process is not None
    os.kill(process, signal.SIGKILL)


def wait_for(read: Callable[[], object]) -> object:
    """Call a function until its result is true, and return the result; fail after SECONDS."""
    deadline = time.monotonic() + SECONDS
    while not (result := read()):
        assert time.monotonic() < deadline, "the result did not become true in time"
        time.sleep(0.01)
    return result
