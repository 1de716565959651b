"""Followers of a store notice that it was replaced by a restored one: events, images, Chroma and Redis."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from everhold import Everhold
from everhold.ports import feed_follower
from everhold.schema.catalog import TABLES
from tests.engines import Store, make_store, texts
from tests.flows.session_stores import is_from_cache, mark_cached_session
from tests.flows.test_chroma import get_vectors, open_with_chroma
from tests.servers.chroma import ChromaServer
from tests.servers.valkey import ValkeyServer


def empty_store(store: Store) -> None:
    """Remove all data of a store, as an operator does before restoring into the same address."""
    if store.name != "postgres":
        for path in Path(store.storage).parent.glob(f"{Path(store.storage).name}*"):
            path.unlink()
        return
    names = ", ".join(f'"{name}"' for name in TABLES if name != "schema_versions")
    with psycopg.connect(store.storage, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {names} RESTART IDENTITY CASCADE".encode())


def replace_by_backup(store: Store, target: Path, **options: Any) -> None:
    empty_store(store)
    Everhold.restore_backup(target, store.storage, **options)


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("after_restore", [1, 12])
def test_a_cursor_of_the_replaced_store_gets_a_gap(after_restore: int, store: Store, tmp_path: Path) -> None:
    with store.open() as engine:
        alice = engine.scope(user="alice")
        alice.remember("Alice drinks tea")
        engine.backup(tmp_path / "backups")
        alice.remember_many([f"note {number}" for number in range(5)])
        cursors = [event.number for event in alice.events()]
    replace_by_backup(store, tmp_path / "backups")
    restored = store.open().scope(user="alice")
    # With 12 memories, the line numbers of the restored store become higher than those of the replaced one.
    ids_after_restore = [restored.remember(f"Alice owns {number} boats").id for number in range(after_restore)]
    for cursor in (0, *cursors):
        gap, *events = restored.events(after=cursor)
        assert gap.operation == "gap"
        assert gap.number > max(cursors)
        assert [event.id for event in events if event.entity == "memory"] == ids_after_restore
    assert [event.id for event in restored.events(after=gap.number)] == ids_after_restore


def test_a_stream_that_is_open_during_the_restore_gets_a_gap(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = make_store("postgres", request, tmp_path)
    engine = store.open()
    alice = engine.scope(user="alice")
    alice.remember("Alice drinks tea")
    engine.backup(tmp_path / "backups")
    alice.remember("Alice plays chess")
    reader = alice.events().reader
    while reader.choose_pause() == 0.0:
        reader.read_page()
    replace_by_backup(store, tmp_path / "backups")
    boat = store.open().scope(user="alice").remember("Alice owns a boat")
    assert [event.operation for event in reader.read_page()] == ["gap"]
    assert [event.id for event in reader.read_page()] == [boat.id]
    assert reader.read_page() == []
    store.close()


def test_images_of_another_engine_are_dropped(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_follower, "_CHECK_SECONDS", 0.0)
    store = make_store("postgres", request, tmp_path)
    alice = store.open().scope(user="alice")
    alice.remember("Alice drinks tea")
    store.opened[0].backup(tmp_path / "backups")
    alice.remember_many([f"Alice wrote note {number}" for number in range(9)])
    assert len(alice.recall("Alice", k=20, minimum=0)) == 10
    replace_by_backup(store, tmp_path / "backups")
    store.open().scope(user="alice").remember("Alice owns a boat")
    hits = alice.recall("Alice", k=20, minimum=0)
    assert sorted(texts(hits)) == ["Alice drinks tea", "Alice owns a boat"]
    store.close()


def test_chroma_is_built_again(sqlite_store: Store, chroma_server: ChromaServer, tmp_path: Path) -> None:
    with open_with_chroma(sqlite_store, chroma_server.url) as engine:
        alice = engine.scope(user="alice")
        alice.remember("Alice drinks tea")
        engine.backup(tmp_path / "backups")
        lost = alice.remember("Alice hides a zebra")
        assert lost.id in {hit.memory.id for hit in alice.recall("zebra", minimum=0)}
        [before] = get_vectors(engine)._projections.values()
        generation = before.attached
    replace_by_backup(sqlite_store, tmp_path / "backups", vectors=chroma_server.url)
    engine = open_with_chroma(sqlite_store, chroma_server.url)
    [after] = get_vectors(engine)._projections.values()
    assert after.attached != generation
    assert after._chroma.ask("count", after.name(after.attached or 0)) == 1
    alice = engine.scope(user="alice")
    alice.remember("Alice owns a boat")
    hits = alice.recall("Alice", minimum=0)
    assert sorted(texts(hits)) == ["Alice drinks tea", "Alice owns a boat"]
    assert hits.approximate  # Chroma has answered
    assert engine.doctor().problems == []


def test_sessions_cached_before_the_restore_are_not_read(
    sqlite_store: Store, valkey_server: ValkeyServer, tmp_path: Path
) -> None:
    with sqlite_store.open(sessions=valkey_server.url) as engine:
        talk = engine.scope(user="alice", session="s1")
        talk.say("I drink tea")
        talk.messages(limit=1)
        engine.backup(tmp_path / "backups")
        assert mark_cached_session(engine)
        assert is_from_cache(talk)
    with sqlite_store.open(sessions=valkey_server.url) as reopened:
        assert is_from_cache(reopened.scope(user="alice", session="s1"))  # the same store may read them
    replace_by_backup(sqlite_store, tmp_path / "backups")
    restored = sqlite_store.open(sessions=valkey_server.url).scope(user="alice", session="s1")
    assert [message.text for message in restored.messages()] == ["I drink tea"]
    assert not is_from_cache(restored)
