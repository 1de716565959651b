"""Expected versions: no acknowledged change is lost."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from everhold import AsyncEverhold, Everhold, View
from everhold.errors import EverholdError, InvalidInput, StaleVersion
from tests.engines import Store, make_store

THREADS, INCREMENTS = 4, 12


@pytest.mark.parametrize("name", ["in_memory", "sqlite", "postgres", "duckdb"])
def test_increments_with_an_expected_version_are_all_kept(
    name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = make_store(name, request, tmp_path_factory.mktemp("versions"))
    alice = store.open().scope(user="alice")
    counter = alice.remember("A counter", metadata={"count": 0})
    failures: list[EverholdError] = []

    def count() -> None:
        try:
            for _ in range(INCREMENTS):
                increment(alice, counter.id)
        except EverholdError as error:
            failures.append(error)

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    final = alice.get(counter.id)
    assert (final.metadata["count"], final.version) == (THREADS * INCREMENTS, THREADS * INCREMENTS + 1)
    store.close()


def increment(view: View, memory_id: str) -> None:
    """Read the number, add one and write it; repeat this until no other thread wrote in between."""
    while True:
        memory = view.get(memory_id)
        try:
            view.revise(memory_id, metadata={"count": memory.metadata["count"] + 1}, expected_version=memory.version)
        except StaleVersion as error:
            if error.current_version is None or error.current_version <= memory.version:
                raise
        else:
            return


def test_a_stale_version_is_refused_with_the_current_one(any_store: Store) -> None:
    alice = any_store.open().scope(user="alice")
    memory = alice.remember("Alice works at Acme", key="job")
    second = alice.revise("job", text="Alice works at Globex", expected_version=memory.version)
    assert second.version == 2
    for verb in (
        lambda: alice.revise("job", text="Alice works at Initech", expected_version=1),
        lambda: alice.revise("job", text="Alice works at Globex", expected_version=1),  # changes nothing
        lambda: alice.supersede("job", "Alice works at Initech", expected_version=1),
        lambda: alice.forget("job", expected_version=1),
        lambda: alice.forget("job", hard=True, expected_version=1),
    ):
        with pytest.raises(StaleVersion) as caught:
            verb()
        assert caught.value.current_version == 2
        assert str(caught.value) == (
            f"memory {memory.id!r} is at version 2, not 1; read it again and retry with expected_version=2"
        )
    assert alice.get("job").text == "Alice works at Globex"
    successor = alice.supersede("job", "Alice works at Initech", expected_version=2)
    forgotten = alice.forget(successor.id, expected_version=successor.version)
    assert forgotten == successor
    assert alice.list(where={"id": successor.id}).memories == ()


def test_a_version_that_changes_before_the_commit_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another caller commits between the check and the commit."""
    engine = store.open()
    alice = engine.scope(user="alice")
    memory = alice.remember("Alice works at Acme")
    commit = engine._parts.records.commit
    attempts = [
        lambda: alice.revise(memory.id, text="Alice works at Initech"),
        lambda: alice.supersede(memory.id, "Alice works at Hooli"),
        lambda: alice.forget(memory.id, expected_version=alice.get(memory.id).version),
    ]
    for number, attempt in enumerate(attempts):

        def change_first(operations: object, number: int = number) -> None:
            monkeypatch.undo()
            alice.revise(memory.id, metadata={"number": number})
            commit(operations)  # type: ignore[arg-type]

        monkeypatch.setattr(engine._parts.records, "commit", change_first)
        with pytest.raises(StaleVersion) as caught:
            attempt()
        assert caught.value.current_version == alice.get(memory.id).version == number + 2
        assert f"is at version {number + 2} now" in str(caught.value)
        monkeypatch.undo()


def test_a_memory_that_is_purged_before_the_commit_is_not_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Purge the memory between the check and the commit."""
    engine = store.open()
    alice = engine.scope(user="alice")
    commit = engine._parts.records.commit
    attempts: list[Callable[[str], object]] = [
        lambda memory_id: alice.revise(memory_id, text="Alice works at Initech"),
        lambda memory_id: alice.supersede(memory_id, "Alice works at Hooli"),
        alice.undo,
    ]
    for attempt in attempts:
        memory = alice.revise(alice.remember("Alice works at Acme").id, text="Alice works at Globex")

        def change_first(operations: object, memory_id: str = memory.id) -> None:
            monkeypatch.undo()
            alice.forget(memory_id, hard=True)
            commit(operations)  # type: ignore[arg-type]

        monkeypatch.setattr(engine._parts.records, "commit", change_first)
        with pytest.raises(StaleVersion, match="has been purged; nothing was written"):
            attempt(memory.id)
        assert alice.list().memories == ()


@pytest.mark.parametrize("version", ["1", 1.0, True])
def test_an_expected_version_is_a_whole_number(alice: View, version: object) -> None:
    memory = alice.remember("Alice works at Acme")
    with pytest.raises(InvalidInput, match="expected_version is"):
        alice.revise(memory.id, text="Alice works at Initech", expected_version=version)  # type: ignore[arg-type]


def test_the_async_engine_checks_expected_versions(engine: Everhold) -> None:
    view = AsyncEverhold(engine).scope(user="alice")

    async def revise_twice() -> None:
        memory = await view.remember("Alice works at Acme")
        await view.revise(memory.id, text="Alice works at Globex", expected_version=1)
        await view.revise(memory.id, text="Alice works at Initech", expected_version=1)

    with pytest.raises(StaleVersion):
        asyncio.run(revise_twice())
