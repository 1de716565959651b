"""The verbs that report changes in a scope to a program."""

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
    """The verbs that report the changes that the scope may see."""

    @log_as("read")
    def events(self, *, after: EventNumber | None = 0, follow: bool = False) -> EventStream:
        """Iterate over the events whose number is greater than `after`: every change that the scope may see, once.

        The default returns all stored events, at least those of the last week; None means only future events. If events
        after the number are no longer stored, the first event is a "gap". The iterator ends after the latest event;
        with `follow` it waits for further events until the engine is closed.
        """
        self._log_call("read", {"events_after": after})
        return EventStream(EventReader(self._parts.records, self.scope, after, follow=follow))

    @log_as("read")
    def subscribe(self, callback: Callable[[ChangeEvent], Any], *, after: EventNumber | None = None) -> Subscription:
        """Call `callback` in a background thread with every event after a number, by default with every future event.

        The next call is made after the callback has returned. If it raises, it is called again with the same event a
        second later.
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
