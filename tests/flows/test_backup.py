"""Backups: what they store, what a restore brings back, and which damage is noticed."""

import random
import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.backup_load import back_up_under_load, find_differences
from everhold import Everhold, clock, settings, stores
from everhold.backups.retention import KeepRule
from everhold.errors import (
    AlreadyExists,
    EverholdError,
    InvalidInput,
    MasterKeyMissing,
    MasterKeyWrong,
    NotFound,
    StoreDamaged,
    StoreUnavailable,
)
from everhold.exchange import moving
from everhold.model import (
    AccessLog,
    BackupTarget,
    Counter,
    Lease,
    LogHead,
    Memory,
    MoveMark,
    Outbox,
    ProjectionState,
    SchemaVersion,
    Secret,
)
from everhold.model.base import Row
from everhold.schema.operations import Delete, Hide, Increment, Put
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.testing.records_rows import make_family
from tests.encrypted_engines import make_key
from tests.engines import CALM, Store, find_tables_with, get_records, make_store, read_all_rows

# Rows that describe one store, and lines that get new numbers in another.
STORE_STATE: tuple[type[Row], ...] = (
    AccessLog, BackupTarget, Counter, Lease, LogHead, MoveMark, Outbox, ProjectionState, SchemaVersion, Secret,
)  # fmt: skip


def restore_and_compare(engine: Everhold, target: Path, storage: str, **options: Any) -> None:
    """Restore the latest backup, and fail unless every table is equal in both stores."""
    Everhold.restore_backup(target, storage, **options)
    records, indexes = stores.open_store(settings.load(storage))
    try:
        moving.compare(get_records(engine), records)
    finally:
        indexes.close()
        records.close()


def make_rows() -> list[Row]:
    """Return a row of every table of an organization, as an engine would have written them."""
    rows = make_family("family")
    chunk = {"user_id": rows["memories"].__dict__["user_id"], "span_start": 0, "span_end": 1}
    rows |= {"chunks": rows["chunks"].model_copy(update=chunk)}
    del rows["data_keys"]  # a store with a key is opened with its master key only
    return list(rows.values())


def list_files(target: Path) -> list[Path]:
    return sorted(path for path in target.rglob("*") if path.is_file())


@pytest.mark.parametrize("store", ["in_memory", "sqlite", "postgres", "duckdb", "dynamodb"], indirect=True)
def test_every_row_of_every_kind_of_store_is_restored(store: Store, tmp_path: Path) -> None:
    engine, target = store.open(), tmp_path / "backups"
    family = make_rows()
    get_records(engine).commit([Put(row) for row in family])
    alice = engine.scope(user="alice")
    kept, changed, deleted, *_ = alice.remember_many([f"note {number}" for number in range(30)])
    first = engine.backup(target)
    assert first.is_full
    assert first.rows >= len(family)
    restore_and_compare(engine, target, str(tmp_path / "first.db"))
    alice.revise(changed.id, text="Alice plays go")
    get_records(engine).commit([Increment(Memory, ("default", kept.id), {"access_count": 3})])
    get_records(engine).commit([Delete(Memory, ("default", deleted.id))])
    second = engine.backup(target)
    assert second.changed_rows < second.rows / 2
    assert second.deleted_rows >= 2
    restore_and_compare(engine, target, str(tmp_path / "second.db"))
    assert Everhold.verify_backup(target).intact


@pytest.mark.parametrize("kind", ["postgres", "duckdb", "dynamodb"])
def test_a_backup_is_restored_into_another_kind_of_store(
    kind: str, sqlite_store: Store, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    get_records(engine).commit([Put(row) for row in make_rows()])
    engine.scope(user="alice").remember("Alice drinks tea", tags=["drink"])
    engine.backup(target)
    target_store = make_store(kind, request, tmp_path)
    restore_and_compare(engine, target, target_store.storage)
    restored = target_store.open()
    assert [hit.memory.text for hit in restored.scope(user="alice").recall("what does Alice drink", minimum=0)]
    assert restored.verify_log().intact
    assert not restored.doctor().problems
    target_store.close()


def test_an_incremental_backup_stores_only_what_changed(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    alice = engine.scope(user="alice")
    memories = alice.remember_many([f"note {number}" for number in range(200)])
    full = engine.backup(target)
    engine.backup(target)  # the first backup sealed the log
    assert engine.backup(target).changed_rows == 0
    alice.revise(memories[3].id, text="another note")
    alice.forget(memories[4].id)
    result = engine.backup(target)
    assert 0 < result.changed_rows < 30
    assert result.bytes < full.bytes / 4  # of the index, too, only the changes are stored
    alice.forget(memories[3].id)
    engine.backup(target)
    restore_and_compare(engine, target, str(tmp_path / "restored.db"))


def test_a_change_by_another_program_is_not_missed(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    memory = engine.scope(user="alice").remember("Alice drinks tea")
    engine.backup(target)
    engine.backup(target)
    with closing(sqlite3.connect(sqlite_store.storage)) as connection, connection:
        connection.execute("UPDATE memories SET text = 'Alice drinks gin' WHERE id = ?", (memory.id,))
    engine.backup(target)
    restore_and_compare(engine, target, str(tmp_path / "restored.db"))


def test_a_store_that_was_put_back_is_compared_row_by_row(sqlite_store: Store, tmp_path: Path) -> None:
    target, path = tmp_path / "backups", Path(sqlite_store.storage)
    with sqlite_store.open() as engine:
        engine.scope(user="alice").remember("Alice drinks tea")
        engine.backup(target)
    old = path.read_bytes()
    with sqlite_store.open() as engine:
        engine.scope(user="alice").remember("Alice plays chess")
        engine.backup(target)
    path.write_bytes(old)
    engine = sqlite_store.open()
    engine.backup(target)
    restore_and_compare(engine, target, str(tmp_path / "restored.db"))


def test_files_outside_the_records_come_back(sqlite_store: Store, tmp_path: Path) -> None:
    blobs = {"blobs": str(tmp_path / "blobs")}
    engine, target = sqlite_store.open(**blobs), tmp_path / "backups"
    view = engine.scope(user="alice")
    view.workspace("notes").write("plan.txt", b"drink tea")
    (tmp_path / "sales.csv").write_text("month,amount\n1,10\n2,20\n")
    view.upload(str(tmp_path / "sales.csv"))
    assert engine.backup(target).files >= 3
    second_backup = engine.backup(target)
    assert second_backup.files >= 3
    assert second_backup.bytes < 20_000
    address = str(tmp_path / "restored.db")
    restored = Everhold.restore_backup(target, address, blobs=str(tmp_path / "other-blobs"))
    assert restored.files == second_backup.files
    with Everhold.open(
        address, embedder=FakeEmbedder(), blobs=str(tmp_path / "other-blobs"), **CALM
    ) as restored_engine:
        assert restored_engine.scope(user="alice").sql("SELECT sum(amount) AS total FROM sales").rows[0][0] == 30
        assert not restored_engine.doctor().problems


# damage


def test_one_changed_byte_anywhere_is_noticed(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    alice = engine.scope(user="alice")
    alice.remember_many([f"note {number}" for number in range(30)])
    engine.backup(target)
    alice.remember("one more")
    alice.forget(alice.list(limit=1).memories[0].id)
    engine.backup(target)
    rng = random.Random(7)
    files = list_files(target)
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        offsets = {len(content) - 1, rng.randrange(len(content))}
        for offset in offsets:
            damaged = bytearray(content)
            damaged[offset] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            ids = [entry.id for entry in Everhold.list_backups(target)]
            assert not all(Everhold.verify_backup(target, name).intact for name in ids), f"{path.name} at {offset}"
        path.write_bytes(content)
    assert Everhold.verify_backup(target).intact


def test_a_damaged_latest_backup_does_not_prevent_the_next(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    engine.scope(user="alice").remember("Alice drinks tea")
    engine.backup(target)
    last = engine.backup(target)
    (target / "backups" / f"{last.id}.backup").write_bytes(b"nothing")
    [entry] = [entry for entry in Everhold.list_backups(target) if entry.problem]
    assert entry.id == last.id
    with pytest.raises(EverholdError, match="damaged"):
        Everhold.restore_backup(target, tmp_path / "restored.db", backup=last.id)
    engine.backup(target)
    restore_and_compare(engine, target, str(tmp_path / "restored.db"))


def test_a_missing_object_is_named(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    engine.scope(user="alice").remember("Alice drinks tea")
    engine.backup(target)
    victim = next(path for path in list_files(target) if path.parent.name == "objects")
    victim.unlink()
    result = Everhold.verify_backup(target)
    assert not result.intact
    assert victim.name in " ".join(result.problems)
    engine.backup(target)
    assert Everhold.verify_backup(target).intact


def test_damaged_keys_and_erasures_are_replaced_only_on_request(sqlite_store: Store, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"encryption": {"master_key": make_key(tmp_path)}}
    engine, target = sqlite_store.open(**keys), tmp_path / "backups"
    engine.scope(user="alice").remember("Alice hides a zebra", kind="vault")
    engine.scope(user="bob").remember("Bob plays chess")
    engine.backup(target)
    engine.erase("alice")
    (target / "state").write_bytes(b"nothing")
    files = list_files(target)
    with pytest.raises(StoreDamaged, match="replace-state"):
        engine.backup(target)
    assert list_files(target) == files
    assert "replace-state" in " ".join(Everhold.verify_backup(target, **keys).problems)
    engine.backup(target, replace_state=True)
    assert Everhold.verify_backup(target, **keys).intact
    Everhold.restore_backup(target, tmp_path / "restored.db", **keys)
    with Everhold.open(tmp_path / "restored.db", embedder=FakeEmbedder(), **CALM, **keys) as restored:
        assert not restored.scope(user="alice").list().memories
        assert restored.scope(user="bob").list().memories


# what is restored


def test_a_used_store_is_refused_unless_rows_are_added(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    alice = engine.scope(user="alice")
    lost, kept = alice.remember("Alice drinks tea"), alice.remember("Alice plays chess")
    engine.backup(target)
    get_records(engine).commit([Delete(Memory, ("default", lost.id))])
    alice.revise(kept.id, text="Alice plays go")
    before = read_all_rows(engine)
    with pytest.raises(AlreadyExists, match="restore into an empty store"):
        Everhold.restore_backup(target, sqlite_store.storage)
    assert read_all_rows(engine) == before
    restored = Everhold.restore_backup(target, sqlite_store.storage, add=True)
    assert restored.rows["memories"] == 1
    assert restored.existing_rows
    assert alice.get(lost.id).text == "Alice drinks tea"
    assert alice.get(kept.id).text == "Alice plays go"
    assert lost.id in {hit.memory.id for hit in alice.recall("tea")}


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "duckdb"])
def test_one_organization_or_one_user_is_restored(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store, target = make_store(kind, request, tmp_path), tmp_path / "backups"
    with store.open() as engine:
        engine.create_organization("other")
        engine.scope(organization="other", user="carol").remember("Carol sails")
        engine.scope(user="alice", session="talk", project="boat").remember("Alice drinks tea", tags=["drink"])
        engine.scope(user="bob").remember("Bob plays chess")
        engine.backup(target)
    address = make_empty_store(store, request, tmp_path, "organization")
    Everhold.restore_backup(target, address, organization="other")
    with Everhold.open(address, embedder=FakeEmbedder(), **CALM) as restored_engine:
        assert find_tables_with(restored_engine, "Carol")
        assert not find_tables_with(restored_engine, "Alice")
        assert restored_engine.verify_log("other").intact
    address = make_empty_store(store, request, tmp_path, "user")
    Everhold.restore_backup(target, address, user="alice")
    with Everhold.open(address, embedder=FakeEmbedder(), **CALM) as restored_engine:
        assert find_tables_with(restored_engine, "tea")
        assert not find_tables_with(restored_engine, "chess")
        assert not find_tables_with(restored_engine, "sails")
        [hit] = restored_engine.scope(user="alice").recall("tea")
        assert hit.memory.session_id == "talk"
        assert not restored_engine.doctor().problems
    with pytest.raises(NotFound, match="no user 'nobody'"):
        Everhold.restore_backup(target, tmp_path / "nobody.db", user="nobody")
    with pytest.raises(NotFound, match="no organization 'nowhere'"):
        Everhold.restore_backup(target, tmp_path / "nobody.db", organization="nowhere")


def make_empty_store(store: Store, request: pytest.FixtureRequest, folder: Path, name: str) -> str:
    """Return the address of another empty store of the same kind. On PostgreSQL, the only database is emptied."""
    (folder / name).mkdir()
    return make_store(store.name, request, folder / name).storage


def test_an_interrupted_restore_continues(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    engine.scope(user="alice").remember_many([f"note {number}" for number in range(700)])
    engine.backup(target)
    restored = tmp_path / "restored.db"

    def stop(progress: Any) -> None:
        if progress.step == "restoring" and progress.done > 900:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Everhold.restore_backup(target, restored, progress=stop)
    restore_and_compare(engine, target, str(restored))


def test_a_time_between_two_backups_is_reached(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    alice = engine.scope(user="alice")
    early, changed = alice.remember("Alice drinks tea"), alice.remember("Alice plays chess")
    engine.backup(target)
    between = alice.remember("Alice owns a boat")
    moment = clock.now()
    late = alice.remember("Alice sold it")
    alice.revise(changed.id, text="Alice plays go")
    alice.forget(early.id)
    engine.backup(target)
    restored = Everhold.restore_backup(target, tmp_path / "then.db", as_of=moment)
    assert restored.reached == moment
    assert restored.notes
    with Everhold.open(tmp_path / "then.db", embedder=FakeEmbedder(), **CALM) as restored_engine:
        stored = {memory.id: memory.text for memory in restored_engine.scope(user="alice").list().memories}
        assert stored == {early.id: early.text, changed.id: "Alice plays chess", between.id: between.text}
        assert late.id not in stored
        assert not restored_engine.doctor().problems
    with pytest.raises(NotFound, match="is as old as"):
        Everhold.restore_backup(target, tmp_path / "never.db", as_of=moment - timedelta(days=9))


# encryption and erasure


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "duckdb"])
def test_an_encrypted_backup_is_restored(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store, target = make_store(kind, request, tmp_path), tmp_path / "backups"
    keys: dict[str, Any] = {"encryption": {"master_key": make_key(tmp_path), "per_user": True}}
    with store.open(**keys) as engine:
        alice = engine.scope(user="alice")
        vault_memory = alice.remember("The zebra code is 1234", kind="vault")
        alice.revise(vault_memory.id, text="The zebra code is 5678")
        memory = alice.remember("Alice hides a zebra")
        alice.revise(memory.id, text="Alice sold the zebra")
        alice.remember("Bob plays chess")
        engine.backup(target)
        rows = read_all_rows(engine, without=STORE_STATE)
    assert Everhold.verify_backup(target, **keys).intact
    assert not any(b"zebra" in path.read_bytes() for path in list_files(target))
    address = make_empty_store(store, request, tmp_path, "restored")
    with pytest.raises(MasterKeyMissing):
        Everhold.restore_backup(target, address)
    with pytest.raises(MasterKeyWrong):
        Everhold.verify_backup(target, encryption={"master_key": make_key(tmp_path, "other.key")})
    Everhold.restore_backup(target, address, **keys)
    with Everhold.open(address, embedder=FakeEmbedder(), **CALM, **keys) as restored:
        assert read_all_rows(restored, without=STORE_STATE) == rows
        assert restored.scope(user="alice").get(vault_memory.id).text == "The zebra code is 5678"
        assert not restored.doctor().problems


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_an_erased_user_stays_erased_after_a_restore(is_encrypted: bool, sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("ab" * 32)
    (tmp_path / "key").chmod(0o600)
    keys: dict[str, Any] = {"encryption": {"master_key": f"file:{tmp_path / 'key'}"}} if is_encrypted else {}
    engine, target = sqlite_store.open(**keys), tmp_path / "backups"
    engine.scope(user="alice", session="talk").remember("Alice hides a zebra", tags=["zebra"])
    engine.scope(user="bob").remember("Bob plays chess")
    first = engine.backup(target)
    assert first.is_encrypted is is_encrypted
    engine.scope(user="alice").remember("Alice hides another zebra")
    engine.backup(target)
    proof = engine.erase("alice")
    assert [erasure.status for erasure in proof.backups] == ["erased"]
    for backup_id in (first.id, None):
        assert Everhold.verify_backup(target, backup_id, **keys).intact
        path = tmp_path / f"{backup_id}.db"
        Everhold.restore_backup(target, path, backup=backup_id, **keys)
        with Everhold.open(path, embedder=FakeEmbedder(), **CALM, **keys) as restored:
            assert not find_tables_with(restored, "zebra")
            assert [memory.text for memory in restored.scope(user="bob").list().memories] == ["Bob plays chess"]
    engine.scope(user="bob").remember("Bob drinks tea")
    engine.backup(target)
    assert Everhold.verify_backup(target, **keys).intact


def test_a_copy_of_a_target_does_not_bring_an_erased_user_back(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    engine.scope(user="alice").remember("Alice hides a zebra")
    engine.scope(user="bob").remember("Bob plays chess")
    engine.backup(target)
    shutil.copytree(target, tmp_path / "mirror")
    engine.erase("alice")
    restored = Everhold.restore_backup(tmp_path / "mirror", sqlite_store.storage, add=True)
    assert restored.erased_rows
    assert not find_tables_with(engine, "zebra")
    engine.scope(user="alice").remember("Alice came back with a zebra")
    engine.backup(target)
    target.rename(tmp_path / "away")
    assert not engine.erase("alice").is_complete
    engine.scope(user="alice").remember("Alice came back again with a zebra")
    engine.backup(tmp_path / "other")
    shutil.copytree(tmp_path / "other", tmp_path / "copy")
    engine.erase("alice")  # continues the erasure that began before this backup
    assert Everhold.restore_backup(tmp_path / "copy", sqlite_store.storage, add=True).erased_rows
    assert not find_tables_with(engine, "zebra")


def test_a_target_that_cannot_be_reached_is_named(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    engine.scope(user="alice").remember("Alice drinks tea")
    engine.backup(target)
    target.rename(tmp_path / "moved")
    [target_erasure] = engine.erase("alice").backups
    assert target_erasure.status == "unreached"
    assert str(target) in target_erasure.target
    assert target_erasure.problem
    assert "erasure" in "".join(engine.doctor().problems)
    (tmp_path / "moved").rename(target)
    assert engine.erase("alice").is_complete
    assert not engine.doctor().problems
    Everhold.restore_backup(target, tmp_path / "restored.db")
    with Everhold.open(tmp_path / "restored.db", embedder=FakeEmbedder(), **CALM) as restored:
        assert not restored.doctor().problems
    with pytest.raises(NotFound, match="no user 'alice'"):
        engine.erase("alice")


def test_a_target_that_is_gone_is_forgotten(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    engine.scope(user="alice").remember("Alice drinks tea")
    engine.backup(target)
    shutil.rmtree(target)
    assert not engine.erase("alice").is_complete
    engine.forget_backups(target)
    assert engine.erase("alice").is_complete
    with pytest.raises(NotFound, match="name one of its targets: none"):
        engine.forget_backups(target)


# targets and retention


def test_wrong_targets_are_refused(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    with pytest.raises(NotFound, match="no backups at"):
        Everhold.restore_backup(tmp_path / "nothing", tmp_path / "restored.db")
    assert not (tmp_path / "restored.db").exists() or not (tmp_path / "restored.db").stat().st_size
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInput, match="is a file"):
        engine.backup(tmp_path / "file")
    for unreachable in ("/proc/nothing/here", "ftp://127.0.0.1:1/here"):
        with pytest.raises(StoreUnavailable):
            engine.backup(unreachable)
    for address in ("nothing://here", "reference://here"):
        with pytest.raises(InvalidInput, match="at this address"):
            engine.backup(address)
    engine.backup(target)
    with (
        Everhold.open(tmp_path / "another.db", embedder=FakeEmbedder(), **CALM) as another,
        pytest.raises(InvalidInput, match="backups of another store"),
    ):
        another.backup(target)
    with pytest.raises(NotFound, match="no backup 'bak_none'"):
        Everhold.verify_backup(target, "bak_none")


def test_old_backups_are_removed_and_the_others_stay_whole(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    alice = engine.scope(user="alice")
    ids = []
    for number in range(6):
        alice.remember(f"note {number}")
        ids.append(engine.backup(target, keep_last=3).id)
    assert [entry.id for entry in Everhold.list_backups(target)] == ids[-3:]
    assert all(Everhold.verify_backup(target, name).intact for name in ids[-3:])
    restore_and_compare(engine, target, str(tmp_path / "restored.db"))


def test_a_retention_rule_keeps_the_latest_of_each_period() -> None:
    noon = clock.now().replace(hour=12)
    moments = [
        (f"{day}-{hour}", noon - timedelta(days=day, hours=hour)) for day in range(20, -1, -1) for hour in (1, 0)
    ]
    assert KeepRule().select(moments) == {name for name, _ in moments}
    assert KeepRule(last=2).select(moments) == {"0-1", "0-0"}
    assert KeepRule(days=3).select(moments) == {"2-0", "1-0", "0-0"}
    assert "0-0" in KeepRule(weeks=2).select(moments)
    assert len(KeepRule(weeks=2).select(moments)) == 2
    with pytest.raises(InvalidInput, match="keep_last is 0"):
        KeepRule(last=0)


# while others write


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_a_backup_under_load_has_the_rows_of_one_moment(store: Store, tmp_path: Path) -> None:
    engine, target = store.open(), tmp_path / "backups"
    writers, backups = back_up_under_load(engine, target, 1.5, seconds_between=0.1)
    assert writers.writes > 50
    for number, backup in enumerate(backups[:3]):
        assert find_differences(writers, target, backup, str(tmp_path / f"{number}.db")) == []
        assert Everhold.verify_backup(target, backup.id).intact


def test_deleted_rows_and_the_log_are_backed_up(sqlite_store: Store, tmp_path: Path) -> None:
    engine, target = sqlite_store.open(), tmp_path / "backups"
    memory = engine.scope(user="alice").remember("Alice drinks tea")
    get_records(engine).commit([Hide(Memory, ("default", memory.id), "deletion", clock.now())])
    engine.backup(target)
    Everhold.restore_backup(target, tmp_path / "restored.db")
    with Everhold.open(tmp_path / "restored.db", embedder=FakeEmbedder(), **CALM) as restored:
        assert get_records(restored).count(Memory, None, deleted=True) == 1
        assert get_records(restored).count(AccessLog, None) >= 1
        assert restored.verify_log().intact
