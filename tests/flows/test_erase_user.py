"""Erasing a user: what is removed, the proof, and the erasure list."""

import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from benchmarks.erasure import KINDS, make_canaries, run, write_user
from everhold import NotFound, TargetErasure
from everhold.errors import DataKeyDestroyed
from everhold.model import DataKey, Memory, UserErasure
from everhold.schema.operations import Put
from everhold.tenancy.erasure import find_erased_users, find_erasures
from tests.encrypted_engines import find_tables_with, get_stored_records, make_key, open_encrypted
from tests.engines import Store, get_parts, get_records


class RecordingTargets:
    """Backup targets that record erasures; one of them cannot be reached."""

    def __init__(self) -> None:
        self.erasures: list[tuple[str, str, list[str]]] = []

    def erase_user(self, organization_id: str, user_id: str, key_ids: Sequence[str]) -> list[TargetErasure]:
        self.erasures.append((organization_id, user_id, list(key_ids)))
        return [TargetErasure("/backups", "erased", 2), TargetErasure("s3://far", "unreached", problem="no network")]


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_nothing_of_the_user_is_left_in_any_table(any_store: Store, tmp_path: Path, is_encrypted: bool) -> None:
    options = {"blobs": str(tmp_path / "blobs"), "workspaces": {"folder": str(tmp_path / "files")}}
    if is_encrypted:
        options["encryption"] = {"master_key": make_key(tmp_path)}
    engine = any_store.open(**options)
    write_user(engine, "alice", make_canaries(len(KINDS), "alice"))
    write_user(engine, "bob", make_canaries(len(KINDS), "bob"))
    bobs_texts = {memory.text for memory in engine.scope(user="bob").list(limit=100)}
    proof = engine.erase("alice")
    assert proof.is_complete
    assert not proof.remaining
    assert proof.digest == proof.compute_digest()
    records = get_stored_records(engine) if is_encrypted else get_records(engine)
    for word in make_canaries(len(KINDS), "alice"):
        assert find_tables_with(records, word) == set()
    assert {memory.text for memory in engine.scope(user="bob").list(limit=100)} == bobs_texts
    assert engine.verify_log().intact
    assert engine.doctor().problems == []


def test_no_byte_is_left_in_files() -> None:
    for is_encrypted in (False, True):
        figures = run("sqlite", 5 * len(KINDS), encrypted=is_encrypted, with_chroma=False)
        assert figures["before"] > 0
        assert (figures["backups"] > 0) != is_encrypted
        assert (figures["after"], figures["unproven"]) == (0, 0)


@pytest.mark.parametrize("store", ["sqlite", "duckdb"], indirect=True)
def test_an_erasure_waits_for_a_reader_that_ends_soon(store: Store) -> None:
    engine = store.open()
    for user in ("alice", "bob"):
        engine.scope(user=user).remember_many([f"Note {number}" for number in range(50)])
    texts = get_records(engine).columns(Memory, "default", ["text"])
    with closing(texts):
        next(texts)
        reader = threading.Timer(0.5, texts.close)
        reader.start()
        proof = engine.erase("alice")
        reader.join()
    assert [place.detail for place in proof.places if place.status == "unreached"] == []


def test_the_proof_is_in_the_log_and_in_the_list(store: Store) -> None:
    engine = store.open()
    alice = engine.scope(user="alice")
    alice.remember("Alice drinks tea", tags=["tea"])
    alice.forget(alice.remember("Alice plays chess").id)
    preview = engine.erase("alice", preview=True)
    assert (preview.preview, preview.rows["memories"], preview.digest) == (True, 2, "")
    assert alice.count() == 1
    proof = engine.erase("alice")
    assert proof.rows == preview.rows
    [entry] = find_erasures(get_records(engine), "default", "alice")
    assert entry.digest is not None
    assert entry.digest.hex() == proof.digest
    assert "alice" not in repr(entry.__dict__)
    digests = [line.request.get("digest") for line in engine.scope().log(operation="delete")]
    assert proof.digest in digests
    with pytest.raises(NotFound):
        engine.erase("alice")


def test_user_erasure_names_backups_and_unreachable_ones(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    engine.scope(user="alice").remember("Secret", kind="vault")
    targets = get_parts(engine).backup_targets = RecordingTargets()
    [key] = [key for key in engine.keys().keys if key.user == "alice"]
    proof = engine.erase("alice")
    assert targets.erasures == [("default", "alice", [key.id])]
    assert not proof.is_complete
    assert [target.target for target in proof.backups if target.status == "unreached"] == ["s3://far"]
    assert proof.digest == proof.compute_digest()


def test_a_restored_row_of_an_erased_user_is_unreadable(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    memory = engine.scope(user="alice").remember("Secret", kind="vault")
    [row] = get_stored_records(engine).scan(Memory, "default")
    engine.erase("alice")
    engine.create_user("alice")
    get_stored_records(engine).commit([Put(row)])  # as a restored backup would bring it back
    with pytest.raises(DataKeyDestroyed, match="erased"):
        engine.scope(user="alice").get(memory.id)
    assert [user for user, _ in find_erased_users(get_records(engine), "default")] == ["alice"]
    assert engine.erase("alice").is_complete, "what cannot be decrypted can be erased"


def test_a_user_can_be_erased_without_the_master_key(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    engine.scope(user="alice").remember("Secret", kind="vault", aliases=["bank card"])
    engine.close()
    engine_without_key = store.open()
    assert engine_without_key.erase("alice").is_complete
    assert get_records(engine_without_key).count(Memory, "default", deleted=True) == 0
    assert [key.subject for key in get_records(engine_without_key).scan(DataKey, "default") if key.subject] == []


def test_an_interrupted_erasure_is_continued(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_encrypted(store, tmp_path)
    engine.scope(user="alice").remember("Secret", kind="vault")
    keys = get_stored_records(engine).scan(DataKey, "default")
    with monkeypatch.context() as patch:
        encryption = get_parts(engine).encryption
        assert encryption is not None

        def interrupt(_: str, __: str) -> list[str]:
            raise KeyboardInterrupt

        patch.setattr(encryption.keys, "destroy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            engine.erase("alice")
    assert get_stored_records(engine).scan(DataKey, "default") == keys
    proof = engine.erase("alice")
    assert proof.is_complete
    assert proof.keys == [key.id for key in keys if key.subject == "alice"]
    assert get_records(engine).count(UserErasure, "default") == 1


def test_rows_written_during_the_erasure_are_readable_or_deleted(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    engine.scope(user="alice").remember("First", kind="vault")
    stop, failures = threading.Event(), list[BaseException]()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                engine.scope(user="alice").remember(f"Meanwhile {number}", kind="vault")
            except NotFound:
                pass  # the rows of the scope were erased again and again
            except BaseException as error:
                failures.append(error)
                raise

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(3):
        with suppress(NotFound):  # the writer has not come back yet
            engine.erase("alice")
    stop.set()
    thread.join()
    assert failures == []
    assert all(memory.text.startswith("Meanwhile") for memory in engine.scope(user="alice").list(limit=1000))


def test_another_organization_keeps_its_user_of_the_same_name(any_store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(any_store, tmp_path)
    for organization in ("acme", "other"):
        engine.scope(organization=organization, user="alice").remember(f"Of {organization}", kind="vault")
    engine.erase("alice", organization="acme")
    assert [memory.text for memory in engine.scope(organization="other", user="alice").list()] == ["Of other"]
    assert [key.organization for key in engine.keys().keys if key.user == "alice"] == ["other"]
