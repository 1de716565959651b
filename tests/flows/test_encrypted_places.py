"""Encrypted fields stay encrypted outside the tables: in Redis, in Chroma, in archive files, and under row security."""

from pathlib import Path

import pytest

from everhold.adapters.files import FileBlobs
from everhold.model import DataKey, SessionArchive
from tests.encrypted_engines import CANARY, get_stored_records, make_key, open_encrypted
from tests.engines import Store, make_store
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer


def find_files_with(folder: Path, word: str = CANARY) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if word.encode() in path.read_bytes()]


@pytest.mark.parametrize("is_encrypted", [True, False], ids=["encrypted", "plain"])
def test_messages_in_redis_are_encrypted(
    request: pytest.FixtureRequest, tmp_path: Path, valkey_server: ValkeyServer, is_encrypted: bool
) -> None:
    store = make_store("sqlite", request, tmp_path)
    encryption = {"master_key": make_key(tmp_path), "fields": ["messages.text"] if is_encrypted else []}
    engine = store.open(sessions=valkey_server.url, encryption=encryption)
    chat = engine.scope(user="alice", session=f"s-{is_encrypted}")
    for number in range(3):
        chat.say(f"I work at {CANARY} {number}")
    client = valkey_server.client()
    values = [repr(_read_key(client, key)) for key in client.scan_iter() if f"s-{is_encrypted}" in key]
    assert values
    assert any(CANARY in value for value in values) is not is_encrypted
    assert [message.text for message in chat.session().history] == [f"I work at {CANARY} {n}" for n in (2, 1, 0)]
    engine.close()


def _read_key(client: object, key: str) -> object:
    kind = client.type(key)  # type: ignore[attr-defined]
    readers = {"hash": "hgetall", "set": "smembers", "string": "get"}
    if kind in readers:
        return getattr(client, readers[kind])(key)
    return client.lrange(key, 0, -1) if kind == "list" else client.zrange(key, 0, -1)  # type: ignore[attr-defined]


def test_archived_messages_in_files_are_encrypted(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store = make_store("sqlite", request, tmp_path)
    blobs = str(tmp_path / "blobs")
    engine = store.open(blobs=blobs, encryption={"master_key": make_key(tmp_path)})
    chat = engine.scope(user="alice", session="s")
    chat.say(f"I work at {CANARY}")
    chat.archive_session()
    engine.maintain(["archive"])
    [archive] = get_stored_records(engine).scan(SessionArchive, "default")
    assert archive.address is not None
    [file] = [path for path in Path(blobs).rglob("*") if path.is_file()]
    assert b"everhold-encrypted" in FileBlobs(str(file.parents[2])).get("default", archive.address)[:40]
    assert [message.text for message in chat.messages()] == [f"I work at {CANARY}"]
    engine.close()


def test_row_security_is_unaffected(postgres_server: PostgresServer, tmp_path: Path) -> None:
    owner_url = postgres_server.create_database()
    postgres_server.create_role("application")
    store = Store("postgres", owner_url.replace("postgres@", "application@"))
    secured = {"row_security": True, "owner_url": owner_url}
    engine = store.open(postgres=secured, encryption={"master_key": make_key(tmp_path)})
    for organization in ("acme", "other"):
        engine.scope(organization=organization, user="alice").remember(f"PIN of {organization}", kind="vault")
    assert [memory.text for memory in engine.scope(organization="acme", user="alice").list()] == ["PIN of acme"]
    assert engine.rotate_keys().unreadable == 0
    assert engine.erase("alice", organization="acme").is_complete
    assert [memory.text for memory in engine.scope(organization="other", user="alice").list()] == ["PIN of other"]
    assert get_stored_records(engine).count(DataKey, "acme") < get_stored_records(engine).count(DataKey, "other")
    assert engine.doctor().problems == []
    store.close()


def test_files_and_logs_hold_no_secret(
    request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "everhold")
    store = make_store("sqlite", request, tmp_path)
    with open_encrypted(store, tmp_path) as engine:
        alice = engine.scope(user="alice")
        alice.remember(f"The PIN is {CANARY}", kind="vault", aliases=["bank card"])
        alice.recall("bank card")
        engine.maintain()
    assert CANARY not in caplog.text
    assert find_files_with(tmp_path) == []
