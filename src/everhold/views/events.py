"""The verbs that tell a program what changes in a scope."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from everhold.arguments.checks import EventNumber
from everhold.arguments.verbs import check_verbs, log_as
from everhold.events.event import ChangeEvent
from everhold.events.reader import EventReader, EventStream
from everhold.events.subscription import Subscription
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView


@check_verbs
class EventVerbs(ScopedView):
    """The changes that the scope may see."""

    @log_as("read")
    def events(self, *, after: EventNumber | None = 0, follow: bool = False) -> EventStream:
        """Iterate over the events after a number: every change that the scope may see, once, numbered increasingly.

        The default is every event that is kept, which is a week at least; None means from now on. If events after the
        number are no longer kept, the first event is a "gap". The iterator ends when it has caught up; with `follow`
        it waits for further events until the engine is closed.
        """
        self._log_call("read", {"events_after": after})
        return EventStream(EventReader(self._parts.records, self.scope, after, follow=follow))

    @log_as("read")
    def subscribe(self, callback: Callable[[ChangeEvent], Any], *, after: EventNumber | None = None) -> Subscription:
        """Call `callback` with every event after a number, by default from now on, in a background thread.

        The next event waits until the callback returns. If it raises, it gets the same event again a second later.
        """
        reader = EventReader(self._parts.records, self.scope, after, follow=True)
        subscription = Subscription(reader, callback)
        self._parts.add_subscription(subscription)
        self._log_call("read", {"events_after": after})
        return subscription


class AsyncEventVerbs(AsyncFacade):
    """The verbs of `EventVerbs` for programs with an event loop."""

    subscribe = Awaited(EventVerbs.subscribe)

    async def events(self, *, after: int | None = 0, follow: bool = False) -> AsyncIterator[ChangeEvent]:
        """Iterate over events as `EventVerbs.events` does: `async for event in view.events(after=number)`."""
        import asyncio

        open_stream = Awaited(EventVerbs.events).__get__(self, type(self))
        stream = await open_stream(after=after, follow=follow)
        pause: float | None = 0.0
        while pause is not None:
            await asyncio.sleep(pause)
            for event in await self._run(stream.reader.read_page):
                yield event
            pause = stream.reader.choose_pause()
