"""The access log with a key: signed lines, and signed heads outside the store."""

import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks import tampering
from everhold import Everhold
from everhold.access import chain
from everhold.adapters.head_files import HeadFiles
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.errors import InvalidInput, InvalidSettings
from everhold.ports.keys import Key
from tests.engines import Store, get_records, make_store

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def log_settings(tmp_path: Path) -> dict[str, Any]:
    """Settings with a key and a folder for heads."""
    (tmp_path / "log.key").write_text(SECRET + "\n")
    return {"log": {"flush_seconds": 3600, "key_file": tmp_path / "log.key", "heads": tmp_path / "heads"}}


def write_lines(engine: Everhold, organization: str = "acme", count: int = 4) -> None:
    alice = engine.scope(organization=organization, user="alice")
    for number in range(count):
        alice.remember(f"{organization} note {number}")


def run_sql(store: Store, *statements: str) -> None:
    with sqlite3.connect(store.storage) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def make_tail_removal(remaining: int) -> tuple[str, ...]:
    """Return SQL that removes the last lines of acme's log and changes the head in the store accordingly."""
    last_hash = f"(SELECT hash FROM memory_access_logs WHERE organization_id = 'acme' AND sealed = {remaining})"
    return (
        f"DELETE FROM memory_access_logs WHERE organization_id = 'acme' AND sealed > {remaining}",
        f"UPDATE log_heads SET length = {remaining}, hash = {last_hash} WHERE organization_id = 'acme'",
    )


REMOVE_LOG = (
    "DELETE FROM memory_access_logs WHERE organization_id = 'acme'",
    "DELETE FROM log_heads WHERE organization_id = 'acme'",
)


def test_random_tampering_is_noticed() -> None:
    outcome = tampering.run(edits=60, seed=7)
    assert outcome.edits > 50
    assert (outcome.unnoticed, outcome.wrong_without_key) == ([], [])
    assert outcome.unnoticed_without_key > 10


def test_random_tampering_is_noticed_on_postgres(postgres_url: str, tmp_path: Path) -> None:
    records = PostgresRecords(PostgresOptions(url=postgres_url))
    heads = HeadFiles(tmp_path / "heads", Key(SECRET.encode()))
    tampering.fill(records, heads)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(tampering.DROP_UNIQUE.encode())
        connection.commit()

        def rewrite(log: tampering.LogState) -> None:
            for sql, values in tampering.make_statements(records, log, "%s"):
                connection.execute(sql.encode(), values)
            connection.commit()

        outcome = tampering.attack(records, heads, rewrite, edits=25, seed=3)
    records.close()
    assert outcome.edits > 20
    assert (outcome.unnoticed, outcome.wrong_without_key) == ([], [])


@pytest.mark.parametrize("statements", [make_tail_removal(2), REMOVE_LOG], ids=["tail and head cut", "all removed"])
def test_only_a_signed_log_detects_these_changes(
    sqlite_store: Store, log_settings: dict[str, Any], statements: tuple[str, ...]
) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    write_lines(engine, "bolt")
    assert engine.verify_log("acme") == chain.Verification(4, True, signed=4)
    run_sql(sqlite_store, *statements)
    verification = engine.verify_log("acme")
    assert not verification.intact
    assert verification.reason is not None
    assert "when it was signed" in verification.reason
    assert "--accept" in verification.reason
    write_lines(engine, count=9)
    assert not engine.verify_log("acme").intact, "further lines do not hide the tampering"
    assert engine.verify_log("bolt").intact
    assert sqlite_store.open().verify_log("acme").intact, "as documented, not noticed without the key"


def test_an_organization_that_vanished_is_reported_by_doctor(sqlite_store: Store, log_settings: dict[str, Any]) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    engine.maintain()
    assert engine.doctor().problems == []
    assert str(log_settings["log"]["heads"]) in engine.doctor().parts["access log"]
    run_sql(sqlite_store, *REMOVE_LOG)
    [problem] = engine.doctor().problems
    assert "'acme' has 0 lines, and 4 were signed" in problem


def test_a_purged_organization_differs_from_a_removed_log(store: Store, log_settings: dict[str, Any]) -> None:
    engine = store.open(**log_settings)
    write_lines(engine)
    assert engine.verify_log("acme").signed == 4
    engine.delete_organization("acme", hard=True)
    assert engine.verify_log("acme") == chain.Verification(0, True, signed=4)
    assert engine.doctor().problems == []
    write_lines(engine, count=2)
    assert engine.verify_log("acme") == chain.Verification(2, True, signed=6), "the chain goes on"


def test_a_purge_by_maintenance_is_recorded_too(store: Store, log_settings: dict[str, Any]) -> None:
    engine = store.open(**log_settings, grace_days=0)
    write_lines(engine)
    engine.delete_organization("acme")
    engine.maintain()
    assert not engine.has_organization("acme")
    verification = engine.verify_log("acme")
    assert (verification.lines, verification.intact) == (0, True)
    assert (verification.signed or 0) >= 4


def test_a_purge_without_the_key_is_noticed(sqlite_store: Store, log_settings: dict[str, Any]) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    assert engine.verify_log("acme").intact
    sqlite_store.open().delete_organization("acme", hard=True)
    verification = engine.verify_log("acme")
    assert (verification.intact, verification.reason) == (False, "the first 4 lines were removed without the key")


def test_lines_written_without_the_key_are_signed_later(sqlite_store: Store, log_settings: dict[str, Any]) -> None:
    write_lines(sqlite_store.open())
    engine = sqlite_store.open(**log_settings)
    write_lines(engine, count=1)
    assert engine.verify_log("acme") == chain.Verification(5, True, signed=5)
    write_lines(engine, count=6)
    assert engine.verify_log("acme").intact
    sqlite_store.open().scope(organization="acme").remember("Written without the key")
    verification = engine.verify_log("acme")
    assert not verification.intact
    assert verification.reason is not None
    assert "was not written with the key" in verification.reason
    assert engine.accept_log("acme").intact
    assert engine.verify_log("acme").intact


def test_lines_are_signed_after_a_crash_between_chaining_and_signing(
    sqlite_store: Store, log_settings: dict[str, Any]
) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    assert engine.verify_log("acme").signed == 4
    write_lines(engine, count=6)
    chain.seal(get_records(engine))  # as if the process died before it signed
    heads = engine._parts.heads
    assert heads is not None
    signed = heads.read("acme")
    assert signed is not None
    assert signed.length == 4
    read_only = sqlite_store.open(storage=f"sqlite:///{sqlite_store.storage}?mode=ro", **log_settings)
    assert read_only.verify_log("acme") == chain.Verification(10, True, signed=10), "heads are outside the store"
    assert engine.verify_log("acme") == chain.Verification(10, True, signed=10)
    run_sql(sqlite_store, *make_tail_removal(5))
    assert not read_only.verify_log("acme").intact


def test_a_restored_backup_is_reported_and_can_be_accepted(sqlite_store: Store, log_settings: dict[str, Any]) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    engine.close()
    path = Path(sqlite_store.storage)
    shutil.copyfile(path, path.with_name("backup.db"))
    engine = sqlite_store.open(**log_settings)
    write_lines(engine, count=7)
    assert engine.verify_log("acme").signed == 11
    engine.close()
    sqlite_store.opened.clear()
    shutil.copyfile(path.with_name("backup.db"), path)
    engine = sqlite_store.open(**log_settings)
    verification = engine.verify_log("acme")
    assert verification.reason is not None
    assert "an older backup was restored" in verification.reason
    assert engine.accept_log("acme").intact
    verification = engine.verify_log("acme")
    assert (verification.intact, verification.lines, verification.signed) == (True, 5, 5), (
        "four, and the line that says it was accepted"
    )
    assert engine.scope(organization="acme").log()[0].operation == "accept"


def test_a_broken_chain_is_not_accepted(sqlite_store: Store, log_settings: dict[str, Any]) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    assert engine.verify_log("acme").intact
    run_sql(sqlite_store, "UPDATE memory_access_logs SET user_id = 'mallory' WHERE sealed = 2")
    assert not engine.accept_log("acme").intact
    assert not engine.verify_log("acme").intact
    with pytest.raises(InvalidInput, match="no key is set"):
        sqlite_store.open().accept_log("acme")


def test_several_engines_sign_one_chain(store: Store, log_settings: dict[str, Any]) -> None:
    first, second = store.open(**log_settings), store.open(**log_settings)
    for number, engine in enumerate((first, second, second, first, second), 1):
        engine.scope(organization="acme", user=f"user{number}").remember("Something")
        chain.seal(get_records(engine), engine._parts.heads)
        assert second.verify_log("acme") == chain.Verification(number, True, signed=number)
    assert first.verify_log("acme").intact


def test_a_shorter_head_never_replaces_a_longer_one(tmp_path: Path) -> None:
    heads = HeadFiles(tmp_path / "heads", Key(SECRET.encode()))
    records = tampering.SqliteRecords(tampering.SqliteOptions(tmp_path / "log.db"))
    tampering.fill(records, heads)
    records.close()
    signed = heads.read("acme")
    assert signed is not None
    heads.write(type(signed)("acme", 3, b"other", 0, signed.signed_at))
    assert heads.read("acme") == signed
    [file] = [path for path in (tmp_path / "heads").iterdir() if b'"acme"' in path.read_bytes()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "heads").stat().st_mode) == 0o700


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: content.replace(b"4", b"3", 1), lambda content: b"[" * 100_000],
    ids=["empty", "shortened", "not a head"],
)
def test_a_damaged_head_is_reported(sqlite_store: Store, log_settings: dict[str, Any], damage: Damage) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    assert engine.verify_log("acme").intact
    [file] = log_settings["log"]["heads"].glob("*.json")
    file.write_bytes(damage(file.read_bytes()))
    verification = engine.verify_log("acme")
    assert verification.reason is not None
    assert "does not hold a head signed with this key" in verification.reason
    write_lines(engine, count=7)
    assert engine.maintain().failed == (), "the log and maintenance go on"
    assert len(engine.doctor().problems) == 1


def test_another_key_does_not_verify(sqlite_store: Store, log_settings: dict[str, Any]) -> None:
    engine = sqlite_store.open(**log_settings)
    write_lines(engine)
    assert engine.verify_log("acme").intact
    other_log = {"flush_seconds": 3600, "key": "another key of 16 bytes", "heads": log_settings["log"]["heads"]}
    assert not sqlite_store.open(log=other_log).verify_log("acme").intact


def test_a_moved_store_verifies(request: pytest.FixtureRequest, tmp_path: Path, log_settings: dict[str, Any]) -> None:
    (tmp_path / "a").mkdir()
    source = make_store("sqlite", request, tmp_path / "a")
    engine = source.open(**log_settings)
    write_lines(engine)
    write_lines(engine, "gone")
    engine.delete_organization("gone", hard=True)
    assert engine.verify_log("acme").intact
    engine.close()
    target = f"duckdb:///{tmp_path / 'moved.duckdb'}"
    Everhold.move(source.storage, target)
    moved = Store("duckdb", target)
    engine = moved.open(log={**log_settings["log"], "heads": tmp_path / "other"})
    assert engine.verify_log("acme") == chain.Verification(4, True, signed=4)
    write_lines(engine, "gone", 1)
    assert engine.verify_log("gone").intact
    write_lines(engine, count=6)
    assert engine.verify_log("acme") == chain.Verification(10, True, signed=10)
    moved.close()


def test_keys_that_cannot_be_used_are_refused(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSettings, match="cannot be read"):
        sqlite_store.open(log={"key_file": tmp_path / "nowhere"})
    with pytest.raises(InvalidSettings, match="5 bytes; use at least 16"):
        sqlite_store.open(log={"key": "short"})
    (tmp_path / "key").write_text(SECRET)
    with pytest.raises(InvalidSettings, match="both set"):
        sqlite_store.open(log={"key": SECRET, "key_file": tmp_path / "key"})
    monkeypatch.setenv("EVERHOLD_LOG__KEY", SECRET)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    engine = sqlite_store.open()
    assert SECRET not in repr(engine.settings)
    write_lines(engine)
    assert engine.verify_log("acme").signed == 4
    [file] = (tmp_path / "data").rglob("*.json")
    assert "log-heads" in str(file), "by default below the data folder"
