"""The events of an organization for subscribers: published as they happen, and replayed on request.

Every published event has its number and that of the event before it (`previous`). A subscriber that knows the number
of the last event it handled skips lower ones, and asks for a replay if `previous` is higher.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from everhold import ChangeEvent, View
from everhold.errors import InvalidInput, format_value
from everhold.interfaces.voice.documents import encode_reply
from everhold.interfaces.voice.outgoing import OutgoingQueue, Publication

STATUS_TOPIC = "status"


class EventPublisher:
    """Publishes the events of a view from now on, and makes heartbeats with the number of the last one."""

    def __init__(self, view: View, outgoing: OutgoingQueue) -> None:
        self._outgoing = outgoing
        self.number = view.events(after=None).reader.number
        """The number of the last published event; at first, of the last event before this object was made."""
        self._subscription = view.subscribe(self._publish, after=self.number)

    def close(self) -> None:
        self._subscription.close()

    def make_heartbeat(self) -> Publication:
        """Return a message for subscribers with the number of the last published event."""
        return make_publication(STATUS_TOPIC, {"status": "running", "number": self.number})

    def _publish(self, event: ChangeEvent) -> None:
        topic = f"{event.entity or 'all'}.{event.operation}"
        self._outgoing.put(make_publication(topic, {**describe_event(event), "previous": self.number}))
        self.number = event.number


def make_publication(topic: str, body: Mapping[str, Any]) -> Publication:
    """Return a message for the subscribers of a topic."""
    return Publication(topic.encode(), encode_reply(dict(body)))


def describe_event(event: ChangeEvent) -> dict[str, Any]:
    """Return an event as a JSON object."""
    return dataclasses.asdict(event)


def replay_events(view: View, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the next events after the number that a request names.

    The reply has at most 1,000 events, the number after which the next request should continue (`last`), and whether
    there are more events (`more`).
    """
    after = request.get("after", 0)
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise InvalidInput(
            f"after is {format_value(after)}", value=after, remedy="send the number of the last event that you handled"
        )
    reader = view.events(after=after).reader
    events = [describe_event(event) for event in reader.read_page()]
    has_more = reader.choose_pause() == 0.0  # a reader that has caught up would pause or end
    return {"status": "success", "events": events, "last": reader.number, "more": has_more}
