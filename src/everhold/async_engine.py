"""The engine for asynchronous programs. `views/awaited.py` runs its verbs in threads."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from everhold.arguments.checks import Identifier, check_workers
from everhold.arguments.verbs import check_verb
from everhold.engine import Everhold
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.ports.embedder import Embedder
from everhold.settings_fields import SettingsFields
from everhold.settings_sections import hide_password
from everhold.views.accounts import AsyncAccountVerbs
from everhold.views.awaited import Awaited, make_async
from everhold.views.hints import EngineHints, OpeningHints
from everhold.views.view import AsyncView

DEFAULT_WORKERS = 8


class AsyncEverhold(AsyncAccountVerbs, EngineHints):
    """An engine whose verbs are coroutines."""

    def __init__(self, engine: Everhold, workers: int = DEFAULT_WORKERS) -> None:
        super().__init__(engine, ThreadPoolExecutor(workers, thread_name_prefix="everhold"))
        self._engine = engine

    def __repr__(self) -> str:
        return f"Async{self._engine!r}"

    export = Awaited(Everhold.export)
    load = Awaited(Everhold.load)
    verify_log = Awaited(Everhold.verify_log)
    accept_log = Awaited(Everhold.accept_log)
    doctor = Awaited(Everhold.doctor)
    maintain = Awaited(Everhold.maintain)
    runs = Awaited(Everhold.runs)
    undo_run = Awaited(Everhold.undo_run)
    extract = Awaited(Everhold.extract)
    tokens = Awaited(Everhold.tokens)
    drop_model = Awaited(Everhold.drop_model)
    flush = Awaited(Everhold.flush)
    erase = Awaited(Everhold.erase)
    keys = Awaited(Everhold.keys)
    rotate_keys = Awaited(Everhold.rotate_keys)
    install_views = Awaited(Everhold.install_views)
    remove_views = Awaited(Everhold.remove_views)
    list_views = Awaited(Everhold.list_views)
    write_view_script = Awaited(Everhold.write_view_script)
    backup = Awaited(Everhold.backup)
    forget_backups = Awaited(Everhold.forget_backups)
    list_backups = staticmethod(make_async(Everhold.list_backups))
    restore_backup = staticmethod(make_async(Everhold.restore_backup))
    verify_backup = staticmethod(make_async(Everhold.verify_backup))
    move = staticmethod(make_async(Everhold.move))
    install_model = staticmethod(make_async(Everhold.install_model))
    create_master_key = staticmethod(make_async(Everhold.create_master_key))
    draw_chart = staticmethod(make_async(Everhold.draw_chart))

    @classmethod
    def open(
        cls,
        target: str | Path | None = None,
        *,
        workers: int = DEFAULT_WORKERS,
        create: bool = True,
        embedder: Embedder | None = None,
        also: Sequence[Embedder] = (),
        **fields: Unpack[SettingsFields],
    ) -> "OpeningEngine[Self]":
        """Open an engine without blocking the event loop: `async with AsyncEverhold.open() as engine:`.

        `await AsyncEverhold.open()` returns an engine that you close yourself. The arguments are those of
        `Everhold.open`; `workers` is the number of calls that can run at the same time.
        """
        check_workers(workers, "workers")
        open_engine = partial(Everhold.open, target, create=create, embedder=embedder, also=also, **fields)
        return OpeningEngine(lambda: cls(open_engine(), workers), target)

    @check_verb
    def scope(
        self,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        project: Identifier | None = None,
        user: Identifier | None = None,
        agent: Identifier | None = None,
        session: Identifier | None = None,
    ) -> AsyncView:
        """Return a view of one scope's data, as `Everhold.scope` does. It reads nothing, so it is not awaited."""
        view = self._engine.scope(organization=organization, project=project, user=user, agent=agent, session=session)
        return AsyncView(view, self._pool)

    async def close(self) -> None:
        """Wait for the running verbs, then close the engine."""
        # The pool first: a verb that still runs needs the engine's store.
        await asyncio.to_thread(self._pool.shutdown, wait=True)
        await asyncio.to_thread(self._engine.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


E = TypeVar("E", bound=AsyncEverhold)


class OpeningEngine(OpeningHints, Generic[E]):
    """The result of `AsyncEverhold.open`. Awaiting it opens the engine; `async with` opens and also closes it."""

    def __init__(self, open_engine: Callable[[], E], target: str | Path | None = None) -> None:
        self._open_engine = open_engine
        self._target = target
        self._engine: E | None = None

    def __repr__(self) -> str:
        return f"OpeningEngine({'' if self._target is None else repr(hide_password(str(self._target)))})"

    def __await__(self) -> Generator[Any, None, E]:
        return asyncio.to_thread(self._open_engine).__await__()

    async def __aenter__(self) -> E:
        self._engine = await self
        return self._engine

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            await self._engine.close()
