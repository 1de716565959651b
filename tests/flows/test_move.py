"""A move copies everything between stores of any kind, even if it was killed on the way."""

import gc
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, settings, stores
from everhold.errors import AlreadyExists, Conflict, InvalidInput
from everhold.exchange import moving
from everhold.model import AccessLog, Cycle, Memory
from everhold.ports.records import Records
from everhold.schema.catalog import TABLES
from everhold.schema.operations import Hide, Patch, Put
from everhold.testing.records_rows import NOON, make_family
from tests.engines import CALM, Store, get_records, read_all_rows
from tests.exhaustive import choose_size
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer

# How many moves are killed: a fourth for each of the four pairs of stores.
KILLS = choose_size(4, 8)
NUMBERS = itertools.count()


@pytest.fixture
def addresses(
    postgres_server: PostgresServer,
    dynamodb_server: DynamoServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[dict[str, str]]:
    """The address of an empty store of each kind."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setenv("EVERHOLD_DYNAMODB__ENDPOINT", dynamodb_server.url)
    monkeypatch.setenv("EVERHOLD_DYNAMODB__SECONDS", "60")
    monkeypatch.setenv("EVERHOLD_DATA", str(tmp_path / "data"))
    url = postgres_server.create_database()
    yield {
        "sqlite": f"sqlite:///{tmp_path / 'first.db'}",
        "postgres": url,
        "dynamodb": f"dynamodb://eu-north-1/move{next(NUMBERS)}",
        "duckdb": f"duckdb:///{tmp_path / 'third.duckdb'}",
        "again": f"sqlite:///{tmp_path / 'last.db'}",
    }
    postgres_server.drop_database(url.partition("?")[0].rpartition("/")[2])


def open_records(address: str) -> Records:
    records, _ = stores.open_store(settings.load(address, **CALM))
    return records


def fill(address: str, memories: int = 40) -> None:
    """Store two families of all entities in two organizations, some of them deleted, and memories with vectors."""
    records = open_records(address)
    for organization in ("acme", "globex"):
        for name in ("one", "two"):
            rows = make_family(organization, name)
            # A store with a data key is opened with its master key only.
            rows_to_store = [row for table, row in rows.items() if TABLES[table].tenant and table != "data_keys"]
            records.commit([Put(row) for row in rows_to_store if name == "one" or type(row).__name__ != "Organization"])
    cycle = records.scan(Cycle, "acme")[0]
    forks = [cycle.model_copy(update={"id": f"{index}", "cycle_index": 90 + index}) for index in range(9, 0, -1)]
    parents = [cycle.id, *[fork.id for fork in forks]]
    records.commit(
        [Put(fork.model_copy(update={"parent_id": parent})) for fork, parent in zip(forks, parents, strict=False)]
    )
    memory = records.scan(Memory, "acme")[0]
    records.commit([Hide(Memory, ("acme", memory.id), "deletion", NOON)])
    records.close()
    store = Store("any", address)
    engine = store.open()
    alice = engine.scope(user="alice")
    alice.remember_many(f"Note {number} about tea and ship {number}" for number in range(memories))
    alice.remember("Said once", idempotency_key="key-1")
    reembedding = engine._parts.reembedding  # from the model of the families' chunks
    assert reembedding is not None
    assert reembedding.wait(300)
    store.close()


def hash_tables(address: str) -> dict[str, moving.TableHash]:
    records = open_records(address)
    hashes = {
        table.name: moving.compute_table_hash(records, entity, table) for entity, table in moving.list_moved_entities()
    }
    records.close()
    return hashes


def test_a_move_through_every_store_keeps_every_row(addresses: dict[str, str]) -> None:
    fill(addresses["sqlite"])
    before = hash_tables(addresses["sqlite"])
    empty = {name for name, table_hash in before.items() if not table_hash.rows}
    # A store with a data key is opened with its master key only: tests/flows/test_encryption.py moves one.
    assert empty == {"data_keys"}, "every table has rows, so that its comparison means something"
    for source, target in itertools.pairwise(addresses.values()):
        moved = Everhold.move(source, target, **CALM)
        assert moved.tables == before == hash_tables(target)
        assert moved.copied == moved.rows
    store = Store("sqlite", addresses["again"])
    alice = store.open().scope(user="alice")
    first = Store("sqlite", addresses["sqlite"]).open().scope(user="alice")
    question = "which ship has note 17?"
    assert [(hit.memory.id, hit.score) for hit in alice.recall(question, minimum=0)] == [
        (hit.memory.id, hit.score) for hit in first.recall(question, minimum=0)
    ]
    assert alice.remember("Said once", idempotency_key="key-1").id == first.list(limit=50)[0].id
    store.close()


def test_a_finished_move_may_be_asked_for_again(tmp_path: Path) -> None:
    first = Store("sqlite", str(tmp_path / "a.db"))
    first.open().scope(user="alice").remember("Prefers tea")
    first.close()
    first_move = Everhold.move(first.storage, str(tmp_path / "b.db"))
    second_move = Everhold.move(first.storage, str(tmp_path / "b.db"))
    assert (first_move.copied, second_move.copied, first_move.tables) == (first_move.rows, 0, second_move.tables)


def start_move(source: str, target: str) -> subprocess.Popen[bytes]:
    code = "import sys; from everhold import Everhold; Everhold.move(sys.argv[1], sys.argv[2])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return subprocess.Popen([sys.executable, "-c", code, source, target], env=environment, stderr=subprocess.PIPE)


@pytest.mark.crash
@pytest.mark.slow
def test_a_move_that_is_killed_several_times_is_completed(addresses: dict[str, str]) -> None:
    """A process that moves a store is killed by SIGKILL, at moments spread over the time that the move takes."""
    fill(addresses["sqlite"], memories=choose_size(30, 60))
    before = hash_tables(addresses["sqlite"])
    rng = random.Random(4)
    killed = 0
    for source, target in itertools.pairwise(addresses.values()):
        for _ in range(KILLS // 4):
            process = start_move(source, target)
            try:
                process.wait(timeout=rng.uniform(0.5, 2.5))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += 1
            process.communicate()
        process = start_move(source, target)
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()[-2000:]
        assert hash_tables(target) == before
    assert killed >= KILLS // 2, "most moves were over before they could be killed"


def interrupt_after(target: Records, count: int) -> Records:
    """Make a store raise after this many commits, as if its process had ended."""
    commit = target.commit
    commits = itertools.count()

    def commit_or_interrupt(operations: Any) -> None:
        if next(commits) == count:
            raise KeyboardInterrupt
        commit(operations)

    target.commit = commit_or_interrupt  # type: ignore[method-assign]
    return target


def test_a_move_continues_after_an_interruption_before_any_commit(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'from.db'}"
    fill(address)
    before = hash_tables(address)
    source, target_path = open_records(address), tmp_path / "to.db"
    for after in itertools.count():
        target = interrupt_after(open_records(f"sqlite:///{target_path}"), after % 7)
        try:
            moving.move(source, target)
        except KeyboardInterrupt:
            target.close()
            continue
        target.close()
        break
    assert after > 6
    assert hash_tables(f"sqlite:///{target_path}") == before
    source.close()


def test_a_store_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    first, second = (Store("sqlite", str(tmp_path / name)) for name in ("a.db", "b.db"))
    for store, text in ((first, "Here"), (second, "There")):
        store.open().scope(user="alice").remember(text)
        store.close()
    with pytest.raises(AlreadyExists, match="holds 1 rows of organizations already; move into an empty one"):
        Everhold.move(first.storage, second.storage)
    [memory] = Store("sqlite", second.storage).open().scope(user="alice").list()
    assert memory.text == "There"


def test_a_row_that_differs_is_found(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'from.db'}"
    fill(address)
    source, target = open_records(address), open_records(f"sqlite:///{tmp_path / 'to.db'}")
    moving.move(source, target)
    memory = target.scan(Memory, "default")[3]
    target.commit([Patch(Memory, ("default", memory.id), {"importance": 0.123})])
    with pytest.raises(Conflict, match="memories is not the same"):
        moving.compare(source, target)
    source.close()
    target.close()


def test_an_engine_works_on_the_moved_store(tmp_path: Path) -> None:
    first = Store("sqlite", str(tmp_path / "a.db"))
    alice = first.open().scope(user="alice")
    alice.remember("Lives in Bangkok", speaker="Alice")
    first.close()
    Everhold.move(first.storage, f"duckdb:///{tmp_path / 'b.duckdb'}", **CALM)
    second = Store("duckdb", f"duckdb:///{tmp_path / 'b.duckdb'}")
    engine = second.open()
    engine.scope(user="alice").remember("Moved to Lisbon", speaker="Alice")
    assert engine.verify_log().intact
    assert (
        read_all_rows(engine)["memories"].keys()
        > read_all_rows(Store("sqlite", first.storage).open())["memories"].keys()
    )
    second.close()


def store_memory(path: Path, text: str = "Prefers tea", organization: str = "default") -> str:
    store = Store("sqlite", str(path))
    store.open().scope(organization=organization, user="alice").remember(text)
    store.close()
    return store.storage


@pytest.mark.parametrize("name", ["nosuch.db", "sqlite:///{}/nosuch.db", "duckdb:///{}/nosuch.duckdb"])
def test_a_file_that_does_not_exist_is_not_moved(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"no store at .*nosuch\..*; name one that exists"):
        Everhold.move(name.format(tmp_path), str(tmp_path / "new.db"))
    with pytest.raises(InvalidInput, match="no store at"):
        Everhold.open(name.format(tmp_path), create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_not_moved_onto_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = store_memory(tmp_path / "a.db")
    (tmp_path / "linked.db").symlink_to(source)
    (tmp_path / "hard.db").hardlink_to(source)
    for address in (source, "a.db", f"sqlite:///{source}", "linked.db", "hard.db", "sqlite:///x/../a.db"):
        with pytest.raises(InvalidInput, match="are the same store; move into another one"):
            Everhold.move(source, address)


def test_a_database_is_not_moved_onto_itself_by_another_address(postgres_url: str) -> None:
    store = Store("postgres", postgres_url)
    store.open().scope(user="alice").remember("Prefers tea")
    store.close()
    before = hash_tables(postgres_url)
    with pytest.raises(InvalidInput, match="the store to move into is the one that is moved; name another"):
        Everhold.move(postgres_url, f"{postgres_url}&application_name=other")
    assert hash_tables(postgres_url) == before


def start_and_interrupt_move(source: str, target: str, after: int) -> None:
    source_records, target_records = open_records(source), interrupt_after(open_records(target), after)
    with pytest.raises(KeyboardInterrupt):
        moving.move(source_records, target_records)
    source_records.close()
    target_records.close()


def test_a_store_that_holds_part_of_another_says_so(tmp_path: Path) -> None:
    first, target = store_memory(tmp_path / "a.db"), str(tmp_path / "b.db")
    start_and_interrupt_move(first, target, after=9)
    unfinished = Store("sqlite", target)
    assert unfinished.open().doctor().problems == [
        "it holds an unfinished move: run `everhold move` again, or delete this store"
    ]
    unfinished.close()
    second = store_memory(tmp_path / "c.db", "Prefers coffee", organization="globex")
    with pytest.raises(AlreadyExists, match="holds an unfinished move of another store"):
        Everhold.move(second, target)
    Everhold.move(first, target)
    finished = Store("sqlite", target)
    assert finished.open().doctor().problems == []
    finished.close()


@pytest.mark.parametrize("target", ["sqlite:///{}/to.db", "duckdb:///{}/to.duckdb"])
def test_a_log_with_gaps_in_its_numbers_verifies_where_it_is_moved_to(tmp_path: Path, target: str) -> None:
    store = Store("sqlite", str(tmp_path / "from.db"))
    engine = store.open()
    for number, organization in enumerate(("acme", "gone", "acme", "gone", "acme")):
        engine.scope(organization=organization, user="alice").remember(f"Note {number}")
    assert engine.verify_log("acme").intact
    engine.delete_organization("gone", hard=True)
    assert [row.sequence for row in get_records(engine).scan(AccessLog, "acme")] == [1, 3, 5]
    store.close()
    Everhold.move(store.storage, target.format(tmp_path), **CALM)
    moved = Store("any", target.format(tmp_path))
    report = moved.open().verify_log("acme")
    assert (report.intact, report.lines, report.reason) == (True, 3, None)
    moved.close()


def test_a_stopped_move_closes_what_it_was_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it did not, a generator would end after its store was closed, and its error would be lost."""
    source = f"sqlite:///{tmp_path / 'from.db'}"
    fill(source)
    monkeypatch.setattr(moving, "_BATCH", 5)
    unraisable_errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable_errors.append)
    for steps in map(range, range(0, 80, 4)):
        steps_left = iter(steps)
        with suppress(StopIteration):
            Everhold.move(
                source, f"sqlite:///{tmp_path / 'to.db'}", lambda *_, steps_left=steps_left: next(steps_left), **CALM
            )
    gc.collect()
    assert unraisable_errors == []
