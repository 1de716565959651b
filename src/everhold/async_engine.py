"""The same verbs for asynchronous programs.

A verb runs in a bounded pool of threads, so the event loop never waits. Cancelling a call stops waiting for it: if it
had not begun it never will, and if it had, it completes.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from everhold.arguments.checks import check_workers
from everhold.engine import Everhold
from everhold.errors import StoreUnavailable
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.recall.hit import Hits
from everhold.view import View

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_WORKERS = 8


class _Facade:
    """What verbs are called on, and the threads they run in."""

    def __init__(self, target: object, pool: ThreadPoolExecutor) -> None:
        self._target = target
        self._pool = pool


class _Awaited(Generic[P, R]):
    """A verb as a coroutine function, with the same parameters."""

    def __init__(self, verb: Callable[Concatenate[Any, P], R]) -> None:
        self.verb = verb
        self.__doc__ = verb.__doc__

    @overload
    def __get__(self, facade: None, owner: type) -> Self: ...
    @overload
    def __get__(self, facade: _Facade, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, facade: _Facade | None, owner: type) -> "Self | Callable[P, Coroutine[Any, Any, R]]":
        if facade is None:
            return self
        target, pool, verb = facade._target, facade._pool, self.verb

        @functools.wraps(verb)
        async def call(*args: P.args, **given: P.kwargs) -> R:
            work = functools.partial(verb, target, *args, **given)
            try:
                done = asyncio.get_running_loop().run_in_executor(pool, work)
            except RuntimeError as error:  # the pool takes nothing more
                raise StoreUnavailable("this engine has been closed; open it again") from error
            return await done

        return call


def _in_a_thread(work: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """What belongs to no engine, as a coroutine function."""

    @functools.wraps(work)
    async def call(*args: P.args, **given: P.kwargs) -> R:
        return await asyncio.to_thread(work, *args, **given)

    return call


def _whole(recall: Callable[P, Hits]) -> Callable[P, Hits]:
    """A recall that reads at once what hits otherwise read when they are asked."""

    @functools.wraps(recall)
    def call(*args: P.args, **given: P.kwargs) -> Hits:
        return recall(*args, **given).whole()

    return call


class AsyncView(_Facade):
    """A view whose verbs are awaited: `await view.recall("…")`."""

    def __init__(self, view: View, pool: ThreadPoolExecutor) -> None:
        super().__init__(view, pool)
        self.scope = view.scope

    remember = _Awaited(View.remember)
    remember_many = _Awaited(View.remember_many)
    revise = _Awaited(View.revise)
    supersede = _Awaited(View.supersede)
    undo = _Awaited(View.undo)
    forget = _Awaited(View.forget)
    forget_where = _Awaited(View.forget_where)
    merge_duplicates = _Awaited(View.merge_duplicates)
    relate = _Awaited(View.relate)
    tag = _Awaited(View.tag)
    untag = _Awaited(View.untag)
    recall = _Awaited(_whole(View.recall))
    context = _Awaited(View.context)
    why_not = _Awaited(View.why_not)
    get = _Awaited(View.get)
    list = _Awaited(View.list)
    history = _Awaited(View.history)
    relations = _Awaited(View.relations)
    tags = _Awaited(View.tags)
    tags_of = _Awaited(View.tags_of)
    log = _Awaited(View.log)
    say = _Awaited(View.say)
    messages = _Awaited(View.messages)
    session = _Awaited(View.session)
    sessions = _Awaited(View.sessions)
    update_session = _Awaited(View.update_session)
    end_session = _Awaited(View.end_session)


class AsyncEverhold(_Facade):
    """An engine whose verbs are awaited."""

    def __init__(self, engine: Everhold, workers: int = DEFAULT_WORKERS) -> None:
        super().__init__(engine, ThreadPoolExecutor(workers, thread_name_prefix="everhold"))
        self._engine = engine

    create_organization = _Awaited(Everhold.create_organization)
    has_organization = _Awaited(Everhold.has_organization)
    create_user = _Awaited(Everhold.create_user)
    create_project = _Awaited(Everhold.create_project)
    sign_in = _Awaited(Everhold.sign_in)
    delete_organization = _Awaited(Everhold.delete_organization)
    delete_user = _Awaited(Everhold.delete_user)
    delete_project = _Awaited(Everhold.delete_project)
    delete_session = _Awaited(Everhold.delete_session)
    restore = _Awaited(Everhold.restore)
    export = _Awaited(Everhold.export)
    load = _Awaited(Everhold.load)
    verify_log = _Awaited(Everhold.verify_log)
    accept_log = _Awaited(Everhold.accept_log)
    doctor = _Awaited(Everhold.doctor)
    upkeep = _Awaited(Everhold.upkeep)
    extract = _Awaited(Everhold.extract)
    tokens = _Awaited(Everhold.tokens)
    flush = _Awaited(Everhold.flush)
    move = staticmethod(_in_a_thread(Everhold.move))
    install_model = staticmethod(_in_a_thread(Everhold.install_model))

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
