"""The engine for asynchronous programs; `views/awaited.py` says how its verbs run."""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from everhold.arguments.checks import check_workers
from everhold.engine import Everhold
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.views import AsyncView
from everhold.views.accounts import AsyncAccountVerbs
from everhold.views.awaited import Awaited, run_in_thread

DEFAULT_WORKERS = 8


class AsyncEverhold(AsyncAccountVerbs):
    """An engine whose verbs are awaited."""

    def __init__(self, engine: Everhold, workers: int = DEFAULT_WORKERS) -> None:
        super().__init__(engine, ThreadPoolExecutor(workers, thread_name_prefix="everhold"))
        self._engine = engine

    export = Awaited(Everhold.export)
    load = Awaited(Everhold.load)
    verify_log = Awaited(Everhold.verify_log)
    accept_log = Awaited(Everhold.accept_log)
    doctor = Awaited(Everhold.doctor)
    maintain = Awaited(Everhold.maintain)
    extract = Awaited(Everhold.extract)
    tokens = Awaited(Everhold.tokens)
    drop_model = Awaited(Everhold.drop_model)
    flush = Awaited(Everhold.flush)
    move = staticmethod(run_in_thread(Everhold.move))
    install_model = staticmethod(run_in_thread(Everhold.install_model))

    @classmethod
    async def open(cls, target: str | Path | None = None, *, workers: int = DEFAULT_WORKERS, **given: Any) -> Self:
        """Opens an engine without blocking the loop; see `Everhold.open`."""
        check_workers(workers, "workers")
        return cls(await asyncio.to_thread(functools.partial(Everhold.open, target, **given)), workers)

    def scope(
        self,
        *,
        organization: str = DEFAULT_ORGANIZATION,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
    ) -> AsyncView:
        """A view of the data of one scope; see `Everhold.scope`. It is not awaited: it touches nothing."""
        view = self._engine.scope(organization=organization, project=project, user=user, agent=agent, session=session)
        return AsyncView(view, self._pool)

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
