"""The chain over the access log: changed, removed, added and reordered lines are noticed."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from everhold import Everhold
from everhold.access import chain
from everhold.model import AccessLog
from tests.engines import Store, get_records

LINES = "memory_access_logs"
COPIED = "organization_id, memory_id, session_id, user_id, operation, timestamp, request, success, interface, digest"


def run_sql(store: Store, *statements: str) -> None:
    """Run SQL statements as a person could who has the file or the database's password."""
    if store.name == "postgres":
        with psycopg.connect(store.storage, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    connection = sqlite3.connect(store.storage)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def write_lines(engine: Everhold, count: int = 8) -> None:
    for organization in ("acme", "bolt"):
        alice = engine.scope(organization=organization, user="alice", session="s1")
        for number in range(count):
            memory = alice.remember(f"Note {number}")
            alice.get(memory.id)
    engine.flush()


# Statements about the lines of acme. `:n` stands for the sequence of its n-th line.
TAMPERING: dict[str, list[str]] = {
    "operation": [f"UPDATE {LINES} SET operation = 'read' WHERE sequence = :1"],
    "user": [f"UPDATE {LINES} SET user_id = 'mallory' WHERE sequence = :2"],
    "user removed": [f"UPDATE {LINES} SET user_id = NULL WHERE sequence = :2"],
    "agent": [f"UPDATE {LINES} SET agent_id = 'mallory' WHERE sequence = :2"],
    "time": [f"UPDATE {LINES} SET timestamp = (SELECT timestamp FROM {LINES} WHERE sequence = :9) WHERE sequence = :3"],
    "success": [f"UPDATE {LINES} SET success = NOT success WHERE sequence = :4"],
    "error": [f"UPDATE {LINES} SET error_message = 'x' WHERE sequence = :4"],
    "interface": [f"UPDATE {LINES} SET interface = 'web' WHERE sequence = :4"],
    "address": [f"UPDATE {LINES} SET ip_address = '10.0.0.1' WHERE sequence = :4"],
    "request": [f"UPDATE {LINES} SET request = '{{}}' WHERE sequence = :5"],
    "memory": [f"UPDATE {LINES} SET memory_id = 'another' WHERE sequence = :5"],
    "memory removed": [f"UPDATE {LINES} SET memory_id = NULL WHERE sequence = :5"],
    "session": [f"UPDATE {LINES} SET session_id = 'another' WHERE sequence = :5"],
    "session removed": [f"UPDATE {LINES} SET session_id = NULL WHERE sequence = :5"],
    "numbers swapped": [
        f"UPDATE {LINES} SET sequence = 1000000 WHERE sequence = :3",
        f"UPDATE {LINES} SET sequence = :3 WHERE sequence = :9",
        f"UPDATE {LINES} SET sequence = :9 WHERE sequence = 1000000",
    ],
    "moved to the end": [f"UPDATE {LINES} SET sequence = 1000000 WHERE sequence = :3"],
    "head shortened": ["UPDATE log_heads SET length = 8 WHERE organization_id = 'acme'"],
    "head removed": ["DELETE FROM log_heads WHERE organization_id = 'acme'"],
    "organization": [f"UPDATE {LINES} SET organization_id = 'bolt', sealed = 1000 WHERE sequence = :5"],
    "digest": [f"UPDATE {LINES} SET digest = previous_hash WHERE sequence = :6"],
    "first removed": [f"DELETE FROM {LINES} WHERE sequence = :1"],
    "one removed": [f"DELETE FROM {LINES} WHERE sequence = :7"],
    "last removed": [f"DELETE FROM {LINES} WHERE sequence = :16"],
    "all removed": [f"DELETE FROM {LINES} WHERE organization_id = 'acme'"],
    "unsealed": [f"UPDATE {LINES} SET sealed = NULL, previous_hash = NULL, hash = NULL WHERE sequence = :7"],
    "places swapped": [
        f"UPDATE {LINES} SET sealed = 1000 WHERE sequence = :3",
        f"UPDATE {LINES} SET sealed = 3 WHERE sequence = :4",
        f"UPDATE {LINES} SET sealed = 4 WHERE sequence = :3",
    ],
    "hash": [f"UPDATE {LINES} SET hash = previous_hash WHERE sequence = :8"],
    "previous hash": [f"UPDATE {LINES} SET previous_hash = hash WHERE sequence = :8"],
    "copied to the end": [
        f"INSERT INTO {LINES} (sequence, sealed, {COPIED}, previous_hash, hash) "  # noqa: ISC004
        f"SELECT 1000000, 17, {COPIED}, previous_hash, hash FROM {LINES} WHERE sequence = :5"
    ],
    "invented": [
        f"INSERT INTO {LINES} (sequence, {COPIED}) "  # noqa: ISC004
        f"SELECT 1000000, {COPIED.replace('operation', repr('erase'))} FROM {LINES} WHERE sequence = :1"
    ],
}  # fmt: skip


@pytest.mark.parametrize("tampering", TAMPERING)
def test_tampering_is_noticed(sqlite_store: Store, tampering: str) -> None:
    assert_tampering_found(sqlite_store, TAMPERING[tampering])


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_tampering_is_noticed_on_postgres(store: Store) -> None:
    engine = store.open()
    write_lines(engine)
    assert engine.verify_log("acme").intact
    for statements in (TAMPERING["user"], TAMPERING["one removed"], TAMPERING["places swapped"]):
        sequences = list_sequences(engine)
        run_sql(store, *(fill_numbers(statement, sequences) for statement in statements))
        assert not engine.verify_log("acme").intact
        run_sql(store, f"DELETE FROM {LINES}", "DELETE FROM log_heads", "DELETE FROM counters")
        write_lines(engine)
        assert engine.verify_log("acme").intact


def list_sequences(engine: Everhold) -> list[int]:
    return [line.sequence for line in get_records(engine).scan(AccessLog, "acme", order="sequence")]


def fill_numbers(statement: str, sequences: Sequence[int]) -> str:
    for number in range(len(sequences), 0, -1):
        statement = statement.replace(f":{number}", str(sequences[number - 1]))
    return statement


def assert_tampering_found(store: Store, statements: Sequence[str]) -> None:
    engine = store.open()
    write_lines(engine)
    first = engine.verify_log("acme")
    assert (first.intact, first.lines, first.reason) == (True, 16, None)
    sequences = list_sequences(engine)
    run_sql(store, *(fill_numbers(statement, sequences) for statement in statements))
    report = engine.verify_log("acme")
    assert not report.intact
    assert report.reason
    engine.scope(organization="acme", user="alice").remember("Written after")
    assert not engine.verify_log("acme").intact, "further lines do not hide the tampering"
    if "'bolt'" not in " ".join(statements):
        assert engine.verify_log("bolt").intact, "other organizations are not affected"


def test_a_line_that_is_inserted_between_others_is_noticed(sqlite_store: Store) -> None:
    """The line has a number below the last chained one, and a digest that fits its content."""
    engine = sqlite_store.open()
    write_lines(engine)
    sequences = list_sequences(engine)
    assert engine.verify_log("acme").intact
    freed_sequence = sequences[3]
    run_sql(
        sqlite_store,
        f"DELETE FROM {LINES} WHERE sequence = {freed_sequence}",
        f"INSERT INTO {LINES} (sequence, {COPIED}) "
        f"SELECT {freed_sequence}, {COPIED} FROM {LINES} WHERE sequence = {sequences[4]}",
    )
    assert not engine.verify_log("acme").intact
    engine.close()
    sqlite_store.opened.clear()
    run_sql(sqlite_store, f"DELETE FROM {LINES}", "DELETE FROM log_heads", "DELETE FROM counters")
    engine = sqlite_store.open()
    write_lines(engine)
    assert engine.verify_log("acme").intact
    run_sql(
        sqlite_store,
        f"INSERT INTO {LINES} (sequence, {COPIED}) "
        f"SELECT -5, {COPIED} FROM {LINES} WHERE sequence = {list_sequences(engine)[4]}",
    )
    report = engine.verify_log("acme")
    assert (report.intact, report.reason) == (False, "line -5 was not added by the engine")


def test_ordinary_operations_leave_the_chain_intact(engine: Everhold) -> None:
    alice = engine.scope(user="alice", session="s1")
    for number in range(5):
        memory = alice.remember(f"Note {number}")
        alice.get(memory.id)
        alice.revise(memory.id, text=f"Revised {number}")
        assert engine.verify_log().intact
        alice.forget(memory.id, hard=True)
    assert engine.verify_log().lines == 20
    engine.delete_user("alice")
    assert engine.verify_log().intact
    engine.restore("user", "alice")
    engine.delete_user("alice", hard=True)
    assert engine.verify_log().intact
    assert engine.verify_log().lines == 23
    assert engine.verify_log("nobody").lines == 0


def test_a_purged_organization_that_is_created_again_begins_a_new_chain(engine: Everhold) -> None:
    engine.scope(organization="acme").remember("First life")
    assert engine.verify_log("acme").lines == 1
    engine.delete_organization("acme", hard=True)
    assert engine.verify_log("acme").lines == 0
    engine.scope(organization="acme").remember("Second life")
    report = engine.verify_log("acme")
    assert (report.intact, report.lines) == (True, 1)


def test_a_long_log_is_sealed_in_batches(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_BATCH", 7)
    engine = sqlite_store.open()
    write_lines(engine, 20)
    assert engine.verify_log("acme").lines == 40
    assert engine.verify_log("bolt").lines == 40
    assert chain.seal(get_records(engine)) == 0


class RecordsWithCallback:
    """Records that call a function once, just before the nth call of a chosen verb."""

    def __init__(self, records: Any, verb: str, nth: int, callback: Callable[[], object]) -> None:
        self._records, self._verb, self._calls_left, self._callback = records, verb, nth, callback

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._records, name)
        if name != self._verb:
            return method

        def call(*arguments: Any, **named: Any) -> Any:
            self._calls_left -= 1
            if self._calls_left == 0:
                self._callback()
            return method(*arguments, **named)

        return call


@pytest.mark.parametrize("verb", ["scan", "get", "commit"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("is_writing", [False, True])
def test_two_sealers_at_any_instant_make_one_chain(store: Store, verb: str, nth: int, is_writing: bool) -> None:
    """Another sealer acts between any two steps of this one. There is still one chain, and it can be extended."""
    engine, other_engine = store.open(), store.open()
    write_lines(engine, 2)

    def seal_meanwhile() -> None:
        if is_writing:
            other_engine.scope(organization="acme", user="bob").remember("Meanwhile")
        chain.seal(get_records(other_engine))
        if is_writing:
            other_engine.scope(organization="acme", user="bob").remember("And after")

    chain.seal(RecordsWithCallback(get_records(engine), verb, nth, seal_meanwhile))  # type: ignore[arg-type]
    for organization in ("acme", "bolt"):
        report = engine.verify_log(organization)
        assert report.intact, report
    engine.scope(organization="acme", user="alice").remember("It goes on")
    report = other_engine.verify_log("acme")
    assert report.intact, report
    count = get_records(engine).count(AccessLog, "acme")
    assert report.lines == count


@pytest.mark.parametrize("verb", ["scan", "get"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_a_log_verifies_while_another_engine_seals(sqlite_store: Store, verb: str, nth: int) -> None:
    engine, other_engine = sqlite_store.open(), sqlite_store.open()
    write_lines(engine, 2)
    chain.seal(get_records(engine))

    def seal_meanwhile() -> None:
        other_engine.scope(organization="acme", user="bob").remember("Meanwhile")
        chain.seal(get_records(other_engine))

    assert chain.verify(RecordsWithCallback(get_records(engine), verb, nth, seal_meanwhile), "acme").intact  # type: ignore[arg-type]


def test_many_sealers_and_writers_make_one_chain(store: Store) -> None:
    engines = [store.open(), store.open()]
    failures: list[BaseException] = []

    def work(engine: Everhold, name: str) -> None:
        try:
            view = engine.scope(organization="acme", user=name)
            for number in range(12):
                view.remember(f"{name} {number}")
                chain.seal(get_records(engine))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [
        threading.Thread(target=work, args=(engine, f"user{number}{index}"))
        for index, engine in enumerate(engines)
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    report = engines[0].verify_log("acme")
    assert (report.intact, report.lines) == (True, 48)


def test_a_store_that_is_only_read_can_still_be_verified(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    write_lines(engine)
    assert engine.verify_log("acme").intact
    reader = sqlite_store.open(storage=f"sqlite:///{sqlite_store.storage}?mode=ro")
    assert reader.verify_log("acme").intact
    engine.scope(organization="acme").remember("Not sealed")
    report = reader.verify_log("acme")
    assert (report.intact, report.lines) == (True, 16)
