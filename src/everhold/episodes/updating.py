"""Bring the episodes of a session up to date.

A message may be deleted after it was read and before its episode is committed. Then the deletion finds no episode with
the message. So the messages are read again after the commit, and deleted ones are removed from the episodes. In the
same way, the deletion searches for episodes again after its own commit. The later of the two commits sees the other.
"""

from collections.abc import Iterator, Sequence

from everhold import clock
from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.erasure import forget_messages
from everhold.episodes.pipeline import find_last_episode, update_page
from everhold.errors import StaleVersion, StoreBusy
from everhold.model import Message, Session
from everhold.retries import CONFLICTS, retry


def update_session(deps: EpisodeDeps, session: Session) -> Iterator[int]:
    """Build the episodes of a session up to its last message; after each commit, yield its number of new messages."""
    last = find_last_episode(deps, session)
    last_time = last.span_to if last is not None else None
    busy = StoreBusy(f"the episodes of session {session.id!r} keep changing", value=session.id, remedy="try again")
    while messages := retry("build episodes", lambda _: update_page(deps, session), CONFLICTS, give_up=lambda _: busy):
        _forget_deleted(deps, session, messages)
        yield sum(last_time is None or message.created_at > last_time for message in messages)
        last_time = messages[-1].created_at


def _forget_deleted(deps: EpisodeDeps, session: Session, messages: Sequence[Message]) -> None:
    stored = deps.records.get(Message, session.organization_id, [message.id for message in messages])
    deleted = [message for message in messages if message.id not in stored]

    def commit(_: int) -> None:
        operations = forget_messages(deps, deleted, clock.now())
        if operations:
            deps.records.commit(operations)

    if deleted:
        retry("remove deleted messages from episodes", commit, CONFLICTS, on=StaleVersion)
