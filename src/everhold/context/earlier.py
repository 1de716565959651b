"""Keep the summaries of what fell out of windows, which stay the same for many turns."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.model import Message, Scope, Session

_MAX_SUMMARIES = 256


class EarlierSummaries:
    """The last summary for the window of each session, and of each conversation in it.

    A summary of what was said before a message changes only if an earlier message is deleted or restored. Every such
    change makes a new version of the session's row, and so does every new message, which also takes the next position:
    a summary is used again while the version and the last position have grown by the same number.
    """

    def __init__(self) -> None:
        self._summaries: dict[tuple[object, ...], tuple[tuple[object, ...], str]] = {}

    def find(
        self,
        scope: "Scope",
        session: "Session",
        conversation: str | None,
        first: "Message",
        budget: int,
        make: Callable[[], str],
    ) -> str:
        """Return the summary of what was said before `first`, made by `make` if it is not kept."""
        # Deleting a user deletes their messages in a group session, and does not change the session.
        if session.user_id is None or session.last_position is None:
            return make()
        place = (session.organization_id, session.id, conversation, scope.user, scope.agent, budget)
        state = (first.id, session.created_at, session.version - session.last_position)
        kept = self._summaries.get(place)
        if kept is not None and kept[0] == state:
            return kept[1]
        summary = make()
        if len(self._summaries) >= _MAX_SUMMARIES:
            self._summaries.clear()
        self._summaries[place] = (state, summary)
        return summary

    def clear(self) -> None:
        """Drop all summaries, because a text that they quote may have been erased."""
        self._summaries.clear()
