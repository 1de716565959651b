"""Asynchronous verbs: the event loop never waits, cancelling leaves no partial write, and closing waits for calls."""

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from everhold import AsyncEverhold, Everhold, Hits, View
from everhold.errors import NotFound
from everhold.testing.fake_embedder import FakeEmbedder
from tests.conventions.source_tree import REPOSITORY
from tests.engines import Store, get_records


class HeldEmbedder(FakeEmbedder):
    """An embedder that answers when a test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = False
        self.released = threading.Event()
        self.entered = threading.Event()

    def embed(self, texts: Sequence[str]) -> list[Any]:
        if self.hold:
            self.entered.set()
            assert self.released.wait(150)
        return super().embed(texts)


async def count_ticks_during(work: Awaitable[Any], embedder: HeldEmbedder, count: int = 100) -> tuple[int, Any]:
    """Return how often the event loop ran while the work was held, and the result of the work."""
    embedder.hold = True
    task = asyncio.ensure_future(work)
    ticks = 0
    while not embedder.entered.is_set() or ticks < count:
        await asyncio.sleep(0.0005)
        ticks += 1
        assert not task.done()
    embedder.hold = False
    embedder.released.set()
    return ticks, await task


@pytest.fixture
def embedder() -> HeldEmbedder:
    return HeldEmbedder()


def run(store: Store, embedder: Any, use_engine: Callable[[AsyncEverhold], Awaitable[None]], workers: int = 8) -> None:
    async def run_lifecycle() -> None:
        engine = store.open(embedder)
        store.opened.remove(engine)
        async with AsyncEverhold(engine, workers) as everhold:
            await use_engine(everhold)

    asyncio.run(run_lifecycle())


def test_asynchronous_verbs_do_the_same_as_the_others(store: Store, embedder: HeldEmbedder) -> None:
    async def use_engine(everhold: AsyncEverhold) -> None:
        await everhold.create_user("alice", email="a@x.org", password="long enough")
        alice = everhold.scope(user="alice")
        memory = await alice.remember("Likes tea", tags=["t"])
        await alice.remember_many(["Likes rain", "Likes stone"])
        hits = await alice.recall("tea", minimum=0)
        assert hits[0].memory.id == memory.id
        revised = await alice.revise(memory.id, text="Likes green tea")
        assert await alice.get(memory.id) == revised
        assert [revision.value["text"] for revision in await alice.history(memory.id)] == ["Likes tea"]
        await alice.undo(memory.id)
        assert (await alice.list(limit=1)).cursor
        assert await alice.tags() == {"t": 1}
        await alice.forget(memory.id)
        with pytest.raises(NotFound):
            await alice.get(memory.id)
        assert (await everhold.verify_log()).intact
        assert (await everhold.sign_in("a@x.org", "long enough")).id == "alice"
        assert alice.scope.user == "alice"

    run(store, embedder, use_engine)


def test_every_verb_is_offered(sqlite_store: Store, embedder: HeldEmbedder) -> None:
    def list_verbs(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    async def use_engine(everhold: AsyncEverhold) -> None:
        for name in list_verbs(Everhold) - {"close", "scope"}:
            assert inspect.iscoroutinefunction(getattr(everhold, name)), name
        for name in list_verbs(View) - {"events"}:
            assert inspect.iscoroutinefunction(getattr(everhold.scope(), name)), name
        assert inspect.isasyncgenfunction(everhold.scope().events)
        assert {"recall", "remember"} <= set(dir(everhold.scope()))
        for name in ("rekall", "_parts", "settings"):
            with pytest.raises(AttributeError):
                getattr(everhold.scope(), name)

    run(sqlite_store, embedder, use_engine)


def test_why_tags_and_pinned_are_read_before_recall_returns(store: Store, embedder: HeldEmbedder) -> None:
    """Tags and pinned memories can be used without waiting, even after the store was closed."""
    results: list[Hits] = []

    async def use_engine(everhold: AsyncEverhold) -> None:
        alice = everhold.scope(user="alice")
        await alice.remember("Likes tea", tags=["drink"], pinned=True)
        results.append(await alice.recall("tea", minimum=0))

    run(store, embedder, use_engine)
    [hits] = results
    assert [hit.tags for hit in hits] == [("drink",)]
    assert [memory.text for memory in hits.pinned] == ["Likes tea"]
    assert hits[0].why.by_retriever


# The lines of the program with an argument or a verb that does not exist.
EXPECTED_ERRORS = [10, 11, 12, 14, 15, 16, 19, 20, 23, 24, 25, 26, 27, 29, 30]


def test_verbs_are_typed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
from everhold import AsyncEverhold, Everhold, Hits, Memory, View

async def talk(engine: AsyncEverhold) -> tuple[Memory, Hits]:
    alice = engine.scope(user="alice")
    return await alice.remember("Likes tea", kind="fact"), await alice.recall("tea", k=3)

async def mistaken(engine: AsyncEverhold) -> int:
    alice = engine.scope(user="alice")
    await alice.recal("tea")
    await alice.recall("tea", kk=3)
    await alice.remember("Likes tea", knd="fact")
    await alice.list(kind="fact", tags=["drink"], limit=3)
    await alice.list(kind=3)
    await alice.context("tea", tagz="drink")
    return await alice.recall("tea")

async def mistaken_elsewhere(alice: View) -> None:
    alice.say("Hello", rol="user")
    alice.relate("m1", "m2", why="test")
    alice.relate("m1", "m2", metadata={"why": "test"})
    Everhold.open("notes.db", sqlite={"synchronous": "NORMAL"}, timezone="Europe/Lisbon")
    Everhold.open("notes.db", timezon="Europe/Lisbon")
    Everhold.open("notes.db", text_bytes="many")
    Everhold.move("a.db", "b.db", sqlte={})
    Everhold.install_model(cach="models")
    AsyncEverhold.open("notes.db", workrs=2)
    async with AsyncEverhold.open("notes.db", workers=2) as engine:
        await engine.create_user("alice", emial="a@b.c")
        engine.scope(user="alice").recal("tea")
""")
    # In the repository, mypy finds the cache that `make lint` has written. Without it, mypy takes 15 s.
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)]
    messages = subprocess.run(command, check=False, capture_output=True, text=True, cwd=REPOSITORY).stdout.splitlines()
    assert [int(line.split(":")[1]) for line in messages if ": error:" in line] == EXPECTED_ERRORS, messages


@pytest.mark.parametrize("verb", ["recall", "remember"])
def test_the_loop_ticks_while_a_verb_is_slow(store: Store, embedder: HeldEmbedder, verb: str) -> None:
    async def use_engine(everhold: AsyncEverhold) -> None:
        alice = everhold.scope(user="alice")
        await alice.remember("Likes tea")
        ticks, result = await count_ticks_during(getattr(alice, verb)("Likes something"), embedder)
        assert ticks >= 100
        assert result

    run(store, embedder, use_engine)


def test_many_verbs_run_at_once(store: Store, embedder: HeldEmbedder) -> None:
    async def use_engine(everhold: AsyncEverhold) -> None:
        alice = everhold.scope(user="alice")
        memories = await asyncio.gather(*(alice.remember(f"Tea {n % 20}") for n in range(60)))
        assert len({memory.id for memory in memories}) == 20
        results = await asyncio.gather(*(alice.recall(f"tea {n % 20}", k=1, minimum=0) for n in range(60)))
        assert [hits[0].memory.text for hits in results] == [f"Tea {n % 20}" for n in range(60)]
        assert len(await alice.list()) == 20

    run(store, embedder, use_engine)


def test_a_running_call_that_is_cancelled_is_completed(store: Store, embedder: HeldEmbedder) -> None:
    """Cancelling a call ends the waiting; the work is completed, and the engine stays usable."""

    async def use_engine(everhold: AsyncEverhold) -> None:
        alice = everhold.scope(user="alice")
        await alice.remember("Before")
        embedder.hold = True
        task = asyncio.ensure_future(alice.remember("Cancelled", tags=["t"]))
        while not embedder.entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        embedder.hold = False
        assert [memory.text for memory in await alice.list()] == ["Before"]
        embedder.released.set()
        for _ in range(2000):
            texts = [memory.text for memory in await alice.list()]
            if len(texts) == 2:
                break
            await asyncio.sleep(0.005)
        assert texts == ["Cancelled", "Before"]
        assert (await alice.tags()) == {"t": 1}
        assert len(await alice.recall("cancelled", minimum=0)) == 2

    run(store, embedder, use_engine)


def test_a_waiting_call_that_is_cancelled_never_starts(store: Store, embedder: HeldEmbedder) -> None:
    """With the only worker busy, a cancelled verb never starts."""

    async def use_engine(everhold: AsyncEverhold) -> None:
        alice = everhold.scope(user="alice")
        embedder.hold = True
        first = asyncio.ensure_future(alice.remember("First"))
        while not embedder.entered.is_set():
            await asyncio.sleep(0.001)
        second = asyncio.ensure_future(alice.remember("Second"))
        await asyncio.sleep(0.01)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(alice.remember("Third"), 0.01)
        embedder.hold = False
        embedder.released.set()
        await first
        assert [memory.text for memory in await alice.list()] == ["First"]

    run(store, embedder, use_engine, workers=1)


def test_random_cancellations_leave_no_partial_write(store: Store, embedder: HeldEmbedder) -> None:
    async def use_engine(everhold: AsyncEverhold) -> None:
        alice = everhold.scope(user="alice")
        tasks = [asyncio.ensure_future(alice.remember(f"Note {n}", tags=[f"t{n}"])) for n in range(80)]
        await asyncio.sleep(0.02)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        acknowledged = {result.text for result in results if not isinstance(result, BaseException)}
        assert {f"Note {n}" for n in range(1, 80, 2)} <= acknowledged
        while everhold._pool._work_queue.qsize():
            await asyncio.sleep(0.01)
        await everhold.flush()
        stored_texts = {memory.text for memory in await alice.list(limit=100)}
        assert acknowledged <= stored_texts
        assert len(await alice.tags()) in range(len(acknowledged), 81)
        assert (await everhold.doctor()).problems == []

    run(store, embedder, use_engine)


def test_closing_waits_for_running_calls(store: Store, embedder: HeldEmbedder) -> None:
    async def use_engine() -> None:
        engine = store.open(embedder)
        store.opened.remove(engine)
        everhold = AsyncEverhold(engine)
        embedder.hold = True
        task = asyncio.ensure_future(everhold.scope(user="alice").remember("Just in time"))
        while not embedder.entered.is_set():
            await asyncio.sleep(0.001)
        closing = asyncio.ensure_future(everhold.close())
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not closing.done()
        embedder.hold = False
        embedder.released.set()
        await closing
        assert (await task).text == "Just in time"

    asyncio.run(use_engine())
    assert [memory.text for memory in store.open().scope(user="alice").list()] == ["Just in time"]


def test_errors_of_verbs_reach_the_caller(sqlite_store: Store, embedder: HeldEmbedder) -> None:
    async def use_engine(everhold: AsyncEverhold) -> None:
        with pytest.raises(NotFound, match="no memory 'nothing' in scope"):
            await everhold.scope(user="alice").get("nothing")
        assert get_records(everhold._engine).traits.name == "sqlite"

    run(sqlite_store, embedder, use_engine)
