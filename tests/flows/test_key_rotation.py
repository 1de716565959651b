"""Turning encryption on, and changing keys, while the store is used and when the work is interrupted."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend

from everhold import Everhold, MasterKeyMissing, MasterKeyWrong, StepProgress
from everhold.model import DataKey, Memory
from everhold.model.encrypted_values import is_encrypted, unpack_envelope
from everhold.ports.data_keys import DataEnvelope
from everhold.settings import load
from tests.encrypted_engines import CANARY, find_tables_with, get_stored_records, make_key, open_encrypted
from tests.engines import Store, get_records, make_store


def write_memories(engine: Everhold, count: int = 30) -> None:
    alice = engine.scope(user="alice")
    alice.remember_many([{"text": f"{CANARY} {number}", "kind": "vault"} for number in range(count)])
    alice.revise(alice.list(limit=1).memories[0].id, text=f"{CANARY} revised")


def read_texts(engine: Everhold) -> set[str]:
    return {memory.text for memory in engine.scope(user="alice").list(limit=100)}


def list_memory_key_ids(engine: Everhold) -> set[str]:
    """Return the ids of the data keys with which memories are encrypted now."""
    rows = get_stored_records(engine).scan(Memory, "default")
    return {DataEnvelope.decode(unpack_envelope(row.text)).key_id for row in rows}


def test_turning_encryption_on_encrypts_what_is_there(any_store: Store, tmp_path: Path) -> None:
    plain = any_store.open()
    write_memories(plain)
    texts = read_texts(plain)
    assert {"memories", "chunks", "revisions"} <= find_tables_with(get_records(plain))
    plain.close()
    engine = open_encrypted(any_store, tmp_path)
    assert engine.keys().problems
    planned = engine.maintain(["encrypt"], dry_run=True)["encrypt"].counts["rows"]
    assert engine.maintain(["encrypt", "files"])["encrypt"].counts["rows"] == planned > 0
    assert find_tables_with(get_stored_records(engine)) == set()
    assert read_texts(engine) == texts
    assert engine.keys().problems == engine.doctor().problems == []
    assert "encrypt" not in {job.name for job in engine.maintain(["encrypt"]).jobs if job.counts}


def test_no_plain_byte_is_left_in_the_file(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = make_store("sqlite", request, tmp_path)
    plain = store.open()
    write_memories(plain)
    plain.close()
    with open_encrypted(store, tmp_path) as engine:
        engine.rotate_keys()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()] == []


def test_dropping_a_field_decrypts_it_again(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path, fields=["memories.text"])
    memory = engine.scope(user="alice").remember("Alice drinks tea")
    assert is_encrypted(get_stored_records(engine).get(Memory, "default", [memory.id])[memory.id].text)
    engine.close()
    engine = open_encrypted(store, tmp_path)
    assert engine.scope(user="alice").get(memory.id).text == "Alice drinks tea"
    engine.maintain(["encrypt"])
    assert get_stored_records(engine).get(Memory, "default", [memory.id])[memory.id].text == "Alice drinks tea"
    assert [hit.id for hit in engine.scope(user="alice").recall("who drinks tea?")] == [memory.id]
    assert "memories.provenance" not in engine.keys().fields


def test_new_data_keys_encrypt_every_row_again(any_store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(any_store, tmp_path)
    write_memories(engine)
    ids_before, texts = list_memory_key_ids(engine), read_texts(engine)
    versions = {row.id: row.version for row in get_stored_records(engine).scan(Memory, "default")}
    rotated = engine.rotate_keys()
    assert {row.id: row.version for row in get_stored_records(engine).scan(Memory, "default")} == versions
    ids_after = list_memory_key_ids(engine)
    assert (rotated.unreadable, len(ids_after), ids_after & ids_before) == (0, 1, set())
    assert rotated.rows >= 30
    assert read_texts(engine) == texts
    assert sorted(key.generation for key in engine.keys().keys if key.user == "alice") == [1, 2]
    assert engine.keys().problems == []
    lines = [
        line for line in engine.scope().log(limit=500) if line.operation == "update" and "replaced keys" in line.request
    ]
    assert lines


def test_the_master_key_is_replaced_in_steps(store: Store, tmp_path: Path) -> None:
    old, new = make_key(tmp_path, "old.key"), make_key(tmp_path, "new.key")
    engine = store.open(encryption={"master_key": old})
    write_memories(engine, 3)
    texts = read_texts(engine)
    engine.close()
    engine = store.open(encryption={"master_key": new, "former_keys": [old]})
    assert read_texts(engine) == texts, "both keys are readable meanwhile"
    assert engine.keys().problems
    engine.scope(user="bob").remember("Bob's secret", kind="vault")  # wrapped by the new key: half rotated
    assert len({key.master_fingerprint for key in engine.keys().keys}) == 2
    engine.close()
    without_former_key = store.open(encryption={"master_key": new})
    with pytest.raises(MasterKeyWrong, match="wrapped by the master key"):
        read_texts(without_former_key)
    with pytest.raises(MasterKeyWrong):
        without_former_key.rotate_keys()
    without_former_key.close()
    engine = store.open(encryption={"master_key": new, "former_keys": [old]})
    assert engine.rotate_keys(master_only=True).wrapped == 3
    assert [memory.text for memory in engine.scope(user="bob").list()] == ["Bob's secret"]
    engine.close()
    engine = store.open(encryption={"master_key": new})
    assert read_texts(engine) == texts
    engine.close()
    with pytest.raises(MasterKeyWrong):
        read_texts(store.open(encryption={"master_key": old}))


def test_an_interrupted_rotation_continues(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    write_memories(engine, 450)
    texts = read_texts(engine)

    def interrupt(progress: StepProgress) -> None:
        if progress.step == "encrypting" and progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.rotate_keys(progress=interrupt)
    assert read_texts(engine) == texts
    assert len(list_memory_key_ids(engine)) == 2, "rows of both generations"
    assert any("interrupted" in problem for problem in engine.keys().problems)
    assert engine.rotate_keys().replaced == 0, "keys of the interrupted rotation are not replaced again"
    assert len(list_memory_key_ids(engine)) == 1
    assert engine.keys().problems == []
    assert read_texts(engine) == texts


def test_writers_continue_while_keys_are_rotated(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    write_memories(engine, 100)
    stop, failures, written = threading.Event(), list[BaseException](), list[str]()

    def write() -> None:
        alice = engine.scope(user="alice")
        while not stop.is_set():
            try:
                memory = alice.remember(f"While {len(written)}", kind="vault")
                alice.revise(memory.id, text=f"While {len(written)} it runs")
                written.append(alice.get(memory.id).text)
            except BaseException as error:
                failures.append(error)
                raise

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(2):
        engine.rotate_keys()
    stop.set()
    thread.join()
    assert failures == []
    assert set(written) <= {memory.text for memory in engine.scope(user="alice").list(limit=1000)}
    assert find_tables_with(get_stored_records(engine), "it runs") == set()


ROTATE_KEYS = """
import sys
from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
def report(progress):
    if progress.step == "encrypting" and progress.done:
        print("encrypting", flush=True)
engine = Everhold.open(sys.argv[1], embedder=FakeEmbedder(), encryption={"master_key": sys.argv[2]})
engine.rotate_keys(progress=report)
"""


def test_a_killed_rotation_continues(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = make_store("sqlite", request, tmp_path)
    engine = open_encrypted(store, tmp_path)
    write_memories(engine, 900)
    texts = read_texts(engine)
    engine.close()
    source = f"file:{tmp_path / 'master.key'}"
    with subprocess.Popen(
        [sys.executable, "-c", ROTATE_KEYS, store.storage, source], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "encrypting\n"
        os.kill(process.pid, signal.SIGKILL)
    engine = open_encrypted(store, tmp_path)
    assert read_texts(engine) == texts
    assert len(list_memory_key_ids(engine)) == 2
    assert engine.rotate_keys().replaced == 0
    assert len(list_memory_key_ids(engine)) == 1
    assert read_texts(engine) == texts
    assert engine.doctor().problems == []
    engine.close()


def test_keys_cannot_be_rotated_without_a_master_key(store: Store, tmp_path: Path) -> None:
    with pytest.raises(MasterKeyMissing):
        store.open().rotate_keys()
    open_encrypted(store, tmp_path).scope(user="alice").remember("Secret", kind="vault")
    with pytest.raises(MasterKeyMissing):
        store.open().rotate_keys()


# where the master key is


@pytest.mark.parametrize("text", ["", " \n", "short", "é" * 40, "0" * 63, "not base 64 " * 4])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(MasterKeyMissing):
        Everhold.open("memory://", encryption={"master_key": f"file:{path}"})


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    source = make_key(tmp_path)
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "master.key").chmod(0o640)
    with pytest.raises(MasterKeyMissing, match="chmod 600"):
        Everhold.open("memory://", encryption={"master_key": source})


class DictionaryKeyring(KeyringBackend):
    """A keyring of this process."""

    priority = 1.0

    def __init__(self) -> None:
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.passwords[service, username]


def test_every_source_gives_the_same_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_key(tmp_path)
    text = (tmp_path / "master.key").read_text()
    monkeypatch.setenv("MY_KEY", text)
    previous_keyring = keyring.get_keyring()
    keyring.set_keyring(DictionaryKeyring())
    keyring.set_password("everhold", "default", text.strip())
    fingerprints = set()
    sources = [f"file:{tmp_path}/master.key", "env:MY_KEY", f"command:cat {tmp_path}/master.key"]
    for source in [*sources, "keyring:everhold/default"]:
        with Everhold.open("memory://", encryption={"master_key": source}) as engine:
            fingerprints.add(engine.keys().master_fingerprint)
    keyring.set_keyring(previous_keyring)
    assert len(fingerprints) == 1


@pytest.mark.parametrize(
    "source",
    ["env:NO_SUCH_KEY", "command:false", "command:no-such-program", "file:/nowhere/key", "keyring:everhold/none"],
)
def test_a_source_that_cannot_be_read_is_named(source: str) -> None:
    with pytest.raises(MasterKeyMissing):
        Everhold.open("memory://", encryption={"master_key": source})


@pytest.mark.parametrize(
    "settings",
    [{}, *({"master_key": source} for source in ("master.key", "keyring:alone", "command:", "file:", "env: "))],
)
def test_settings_that_name_no_source_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="encryption"):
        Everhold.open("memory://", encryption=settings)


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    source = make_key(tmp_path)
    text = (tmp_path / "master.key").read_text().strip()
    with Everhold.open("memory://", encryption={"master_key": source}) as engine:
        engine.scope(user="alice").remember("Secret", kind="vault")
        shown = repr(engine.keys()) + repr(engine.doctor()) + repr(get_stored_records(engine).scan(DataKey, "default"))
    assert text not in shown
    assert "wrapped_key" not in shown
    assert text not in repr(load("memory://", encryption={"master_key": source}))
