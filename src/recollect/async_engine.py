"""The same verbs for asynchronous programs, over one generic facade.

A verb runs in a bounded pool of threads, so the event loop never waits. Cancelling a call stops waiting for it: if it
had not begun it never will, and if it had, it completes.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recollect.engine import Recollect
from recollect.view import View

DEFAULT_WORKERS = 8


class _Awaitable:
    """Offers every public method of an object as a coroutine function."""

    def __init__(self, target: object, pool: ThreadPoolExecutor) -> None:
        self._target = target
        self._pool = pool

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        verb = getattr(self._target, name)
        if name.startswith("_") or not callable(verb):
            raise AttributeError(f"{type(self._target).__name__} has no verb {name!r}")

        @functools.wraps(verb)
        async def call(*args: Any, **given: Any) -> Any:
            work = functools.partial(verb, *args, **given)
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)

        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._target) if not name.startswith("_"))})


class AsyncView(_Awaitable):
    """A view whose verbs are awaited: `await view.recall("…")`."""

    def __init__(self, view: View, pool: ThreadPoolExecutor) -> None:
        super().__init__(view, pool)
        self.scope = view.scope


class AsyncRecollect(_Awaitable):
    """An engine whose verbs are awaited."""

    def __init__(self, engine: Recollect, workers: int = DEFAULT_WORKERS) -> None:
        super().__init__(engine, ThreadPoolExecutor(workers, thread_name_prefix="recollect"))
        self._engine = engine

    @classmethod
    async def open(cls, target: str | Path | None = None, *, workers: int = DEFAULT_WORKERS, **given: Any) -> Self:
        """Opens an engine without blocking the loop; see `Recollect.open`."""
        return cls(await asyncio.to_thread(functools.partial(Recollect.open, target, **given)), workers)

    def scope(self, **dimensions: Any) -> AsyncView:
        """A view of the data of one scope; see `Recollect.scope`."""
        return AsyncView(self._engine.scope(**dimensions), self._pool)

    async def close(self) -> None:
        """Waits for the verbs under way, then closes the engine."""
        await asyncio.to_thread(self._pool.shutdown, wait=True)
        await asyncio.to_thread(self._engine.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
