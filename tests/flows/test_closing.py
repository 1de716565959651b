"""An engine is closed twice, and while other threads use it; afterwards its verbs raise an error."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from everhold import AsyncEverhold
from everhold.errors import StoreUnavailable
from everhold.views.view import View
from tests.engines import make_store

VERBS: tuple[Callable[[View, int], object], ...] = (
    lambda view, number: view.remember(f"The ferry number {number} leaves at noon."),
    lambda view, _: view.recall("ferry"),
    lambda view, _: view.list(),
    lambda view, _: view.tags(),
)


@pytest.mark.parametrize("name", ["sqlite", "postgres", "duckdb"])
def test_an_engine_is_closed_twice_while_threads_use_it(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with closing(make_store(name, request, tmp_path)) as store:
        engine = store.open()
        view = engine.scope(user="u")
        view.remember("The first ferry leaves at six.")
        completed_calls = threading.Semaphore(0)

        def use(verb: Callable[[View, int], object]) -> None:
            for number in range(100_000):
                verb(view, number)
                completed_calls.release()

        with ThreadPoolExecutor(len(VERBS) + 1) as pool:
            users = [pool.submit(use, verb) for verb in VERBS]
            for _ in range(3 * len(VERBS)):
                assert completed_calls.acquire(timeout=300)
            second_close = pool.submit(engine.close)
            engine.close()
            assert second_close.exception(60) is None
            assert {type(user.exception(60)) for user in users} == {StoreUnavailable}
        engine.close()
        for verb in VERBS:
            with pytest.raises(StoreUnavailable):
                verb(view, -1)


def test_an_asynchronous_engine_is_closed_twice_and_refuses_verbs(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with closing(make_store("sqlite", request, tmp_path)) as store:

        async def run() -> None:
            engine = AsyncEverhold(store.open())
            await engine.close()
            await engine.close()
            with pytest.raises(StoreUnavailable):
                await engine.scope(user="u").recall("ferry")

        asyncio.run(run())
