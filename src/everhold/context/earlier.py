"""Cache the summaries of messages that are no longer in windows. They stay the same for many turns."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.model import Message, Scope, Session

_MAX_SUMMARIES = 256


class EarlierSummaries:
    """A cache of the last summary for the window of each session, and of each conversation in it.

    A summary of what was said before a message changes only if an earlier message is deleted or restored. Such a change
    increases the version of the session's row. A new message increases the version and the last position. So a summary
    is valid while the difference between the version and the last position is the same.
    """

    def __init__(self) -> None:
        self._summaries: dict[tuple[object, ...], tuple[tuple[object, ...], str]] = {}

    def get_or_make(
        self,
        scope: "Scope",
        session: "Session",
        conversation: str | None,
        first: "Message",
        budget: int,
        make: Callable[[], str],
    ) -> str:
        """Return the cached summary of what was said before `first`, or call `make` and cache its result."""
        # A session without a user is a group session: deleting one of its users deletes their messages without changing
        # the session's row.
        if session.user_id is None or session.last_position is None:
            return make()
        key = (session.organization_id, session.id, conversation, scope.user, scope.agent, budget)
        state = (first.id, session.created_at, session.version - session.last_position)
        cached = self._summaries.get(key)
        if cached is not None and cached[0] == state:
            return cached[1]
        summary = make()
        if len(self._summaries) >= _MAX_SUMMARIES:
            self._summaries.clear()
        self._summaries[key] = (state, summary)
        return summary

    def clear(self) -> None:
        """Drop all summaries, because a text that they quote may have been erased."""
        self._summaries.clear()
