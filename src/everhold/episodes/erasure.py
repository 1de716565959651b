"""Update episodes when messages are deleted, purged or restored.

An episode is built again without deleted messages. In the same commit, their quotes are removed from its section,
chapter, session and periods. The episodes of a deleted session are deleted with it, and its quotes are removed from
periods.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from everhold.episodes.building import summarise_messages
from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.ids import make_episode_id
from everhold.episodes.pipeline import describe_messages, plan_periods, plan_rollups, read_messages
from everhold.episodes.quotes import Quote, render_episode, render_quotes
from everhold.episodes.rollups import EPISODE_COUNTS, EpisodeChange, list_speakers
from everhold.episodes.writing import make_operations
from everhold.model import Episode, Message, Session
from everhold.model.episode import CHAPTER, EPISODE, SECTION
from everhold.schema.operations import Op, Operation, Where

_EMPTY: dict[str, Any] = {
    "name": None, "summary": "", "quotes": [], "topics": [], "key_facts": [], "participants": [],
    "first_message_id": None, "last_message_id": None, "message_count": 0, "token_count": 0,
    "metadata": {},
}  # fmt: skip


def forget_messages(deps: EpisodeDeps, messages: Sequence[Message], now: datetime) -> list[Operation]:
    """Return the operations that remove messages from all episodes; the messages are about to be deleted."""
    return _rebuild(deps, messages, now, are_present=False)


def restore_messages(deps: EpisodeDeps, messages: Sequence[Message], now: datetime) -> list[Operation]:
    """Return the operations that add messages to their episodes; the messages are about to be restored."""
    return _rebuild(deps, messages, now, are_present=True)


def _rebuild(deps: EpisodeDeps, messages: Sequence[Message], now: datetime, *, are_present: bool) -> list[Operation]:
    messages_by_session: dict[tuple[str, str], list[Message]] = {}
    for message in messages:
        if message.session_id is not None:
            messages_by_session.setdefault((message.organization_id, message.session_id), []).append(message)
    operations: list[Operation] = []
    for (organization, session_id), session_messages in messages_by_session.items():
        session = deps.records.get(Session, organization, [session_id]).get(session_id)
        if session is not None:  # the episodes of a deleted session are deleted with it
            operations += _rebuild_session(deps, session, session_messages, now, are_present=are_present)
    return operations


def _rebuild_session(
    deps: EpisodeDeps, session: Session, messages: Sequence[Message], now: datetime, *, are_present: bool
) -> list[Operation]:
    changes = []
    for episode in _find_episodes(deps, session, messages):
        episode_messages = [
            message for message in messages if episode.span_from <= message.created_at <= episode.span_to
        ]
        rebuilt = _rebuild_episode(deps, session, episode, episode_messages, are_present=are_present)
        changes.append(EpisodeChange(episode, rebuilt))
    if not changes:
        return []
    deleted_ids = set() if are_present else {message.id for message in messages}
    groups = [_drop_quotes(group, deleted_ids) for group in _find_groups(deps, session, changes)]
    return make_operations(deps, [*changes, *groups, *plan_rollups(deps, session, changes, now)], now)


def _find_episodes(deps: EpisodeDeps, session: Session, messages: Sequence[Message]) -> list[Episode]:
    """Return the episodes that these messages belong to."""
    times = sorted(message.created_at for message in messages)
    where = [
        Where("session_id", Op.EQ, session.id),
        Where("level", Op.EQ, EPISODE),
        Where("span_from", Op.LE, times[-1]),
        Where("span_to", Op.GE, times[0]),
    ]
    episodes = deps.records.scan(Episode, session.organization_id, where, order="span_from")
    return [episode for episode in episodes if any(episode.span_from <= time <= episode.span_to for time in times)]


def _rebuild_episode(
    deps: EpisodeDeps, session: Session, episode: Episode, messages: Sequence[Message], *, are_present: bool
) -> Episode:
    """Return an episode built again from its messages: with `messages` if they are present, else without them."""
    message_ids = {message.id for message in messages}
    if session.archived_messages:  # the other messages are archived, so the episode cannot be built again
        return _drop_quotes(episode, set() if are_present else message_ids).after
    stored_messages = read_messages(deps, session, episode.span_from, episode.span_to)
    stored_messages += read_messages(deps, session, episode.span_to, limit=1)
    members = {message.id: message for message in stored_messages if message.created_at <= episode.span_to}
    members |= {message.id: message for message in messages}
    present_messages = [message for message in members.values() if are_present or message.id not in message_ids]
    present_messages.sort(key=lambda message: message.created_at)
    if not present_messages:
        return _copy(episode, _EMPTY)
    described_messages = list(describe_messages(deps, session.organization_id, present_messages))
    values = summarise_messages(session, described_messages, deps.count_tokens, deps.zone)
    message_bounds = {"first_message_id": present_messages[0].id, "last_message_id": present_messages[-1].id}
    return _copy(episode, {**values, **message_bounds, "metadata": {}})


def _find_groups(deps: EpisodeDeps, session: Session, changes: Iterable[EpisodeChange]) -> list[Episode]:
    """Return the sections and chapters of changed episodes."""
    numbers = [change.after.number for change in changes]
    ids = {
        make_episode_id(session.id, level, number // EPISODE_COUNTS[level])
        for number in numbers
        for level in (SECTION, CHAPTER)
    }
    return list(deps.records.get(Episode, session.organization_id, sorted(ids)).values())


def _drop_quotes(episode: Episode, message_ids: Collection[str]) -> EpisodeChange:
    """Return the change of an episode that removes the quotes and facts of these messages."""
    quotes = [quote for quote in episode.quotes if quote["message"] not in message_ids]
    facts = [fact for fact in episode.key_facts if fact["message"] not in message_ids]
    return EpisodeChange(episode, _copy(episode, {**_render_remaining_quotes(episode, quotes), "key_facts": facts}))


def _render_remaining_quotes(episode: Episode, quotes: Sequence[Quote]) -> dict[str, Any]:
    """Return the values of an episode that change if these quotes remain; none if all of its quotes remain."""
    # With metadata, a language model may have written the summary. It may repeat messages that are not quoted.
    if len(quotes) == len(episode.quotes) and not episode.metadata:
        return {}
    text = render_episode(quotes, episode.topics) if episode.level == EPISODE else render_quotes(quotes)
    return {"quotes": list(quotes), "summary": text, "participants": list_speakers(quotes), "metadata": {}}


def _copy(episode: Episode, values: dict[str, Any]) -> Episode:
    return Episode.build_complete({**episode.__dict__, **values})


# whole sessions


def forget_session(deps: EpisodeDeps, session: Session, now: datetime) -> list[Operation]:
    """Return the operations that remove a session from periods; its own episodes are deleted with it."""
    episodes = _read_episodes(deps, session)
    emptied = [EpisodeChange(episode, _copy(episode, _EMPTY)) for episode in episodes]
    return make_operations(deps, plan_periods(deps, session, emptied, now), now)


def restore_session(deps: EpisodeDeps, session: Session, now: datetime) -> list[Operation]:
    """Return the operations that add a restored session to periods."""
    changes = [EpisodeChange(None, episode) for episode in _read_episodes(deps, session)]
    return make_operations(deps, plan_periods(deps, session, changes, now), now)


def _read_episodes(deps: EpisodeDeps, session: Session) -> list[Episode]:
    where = [Where("session_id", Op.EQ, session.id), Where("level", Op.EQ, EPISODE)]
    return deps.records.scan(Episode, session.organization_id, where, order="span_from")


def find_shared_messages(deps: EpisodeDeps, organization: str, column: str, owner_id: str) -> list[Message]:
    """Return the messages of a user or an agent in sessions that belong to no user or agent.

    Such a session stays when the user or agent is deleted. `column` is "user_id" or "agent_id", and `owner_id` the id
    in this column.
    """
    where = [Where(column, Op.EQ, owner_id)]
    session_ids = {
        session_id
        for (session_id,) in deps.records.columns(Message, organization, ("session_id",), where)
        if session_id is not None
    }
    sessions = deps.records.get(Session, organization, sorted(session_ids)) if session_ids else {}
    shared_ids = [session.id for session in sessions.values() if session.__dict__[column] is None]
    if not shared_ids:
        return []
    return deps.records.scan(Message, organization, [*where, Where("session_id", Op.IN, shared_ids)])
