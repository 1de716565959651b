"""Turn verbs, public methods such as `remember`, into coroutine functions with the same parameters.

A verb runs in a bounded pool of threads, so that the event loop is never blocked. Cancelling a call drops work that
has not started yet; work that has started runs to its end.
"""

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from everhold.errors import StoreUnavailable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

P = ParamSpec("P")
R = TypeVar("R")


class AsyncFacade:
    """Base of the asynchronous classes: holds the synchronous object and the threads in which its verbs run."""

    def __init__(self, target: object, pool: "ThreadPoolExecutor") -> None:
        self._target = target
        self._pool = pool

    async def _run(self, work: Callable[[], R]) -> R:
        """Run `work` in a thread of the pool and return its result."""
        import asyncio  # slow to import, and synchronous programs load this module, too

        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeError as error:  # the pool accepts no work after shutdown
            raise StoreUnavailable("this engine has been closed", remedy="open it again") from error
        return await future


class Awaited(Generic[P, R]):
    """A descriptor that gives a facade a coroutine method with the parameters and the docstring of a verb."""

    def __init__(self, verb: Callable[Concatenate[Any, P], R]) -> None:
        self.verb = verb
        self.__doc__ = verb.__doc__

    @overload
    def __get__(self, facade: None, owner: type) -> Self: ...
    @overload
    def __get__(self, facade: AsyncFacade, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, facade: AsyncFacade | None, owner: type) -> "Self | Callable[P, Coroutine[Any, Any, R]]":
        if facade is None:
            return self
        verb = self.verb

        @functools.wraps(verb)
        async def call(*args: P.args, **keywords: P.kwargs) -> R:
            return await facade._run(functools.partial(verb, facade._target, *args, **keywords))

        return call


def make_async(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a coroutine function that runs `function` in a thread. For functions that need no open engine."""

    @functools.wraps(function)
    async def call(*args: P.args, **keywords: P.kwargs) -> R:
        import asyncio

        return await asyncio.to_thread(function, *args, **keywords)

    return call
