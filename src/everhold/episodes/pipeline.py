"""Build the episodes of the next messages of a session.

    messages since the open episode → episodes → sections and chapters that are complete → session and periods → commit

The open episode is built again with the new messages. Complete episodes, sections and chapters do not change. Each page
of messages is one commit. It checks the versions of the rows that it changes: if two processes build the same session,
one succeeds, and the other reads again.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime

import numpy as np

from everhold import clock
from everhold.episodes.boundaries import EpisodeMessage, split_into_episodes
from everhold.episodes.building import make_episode
from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.ids import make_episode_id
from everhold.episodes.periods import CalendarPeriod, find_day, find_period, list_periods
from everhold.episodes.rollups import (
    GROUP_PARTS,
    GROUP_SIZE,
    EpisodeChange,
    make_group,
    update_period,
    update_session_rollup,
)
from everhold.episodes.writing import make_operations
from everhold.errors import AlreadyExists, StaleVersion
from everhold.model import Chunk, Episode, Message, Session
from everhold.model.episode import DAY, EPISODE, MONTH, SESSION, WEEK, YEAR
from everhold.model.vectors import Vector
from everhold.retries import TryAgain
from everhold.schema.operations import Op, Where

# The maximum number of messages that are read and committed at once.
PAGE = 256


def update_page(deps: EpisodeDeps, session: Session) -> list[Message]:
    """Build the episodes of the next page of messages and return its messages; none if the episodes are up to date.

    The page begins with the messages of the open episode, which is built again.
    """
    last = find_last_episode(deps, session)
    messages = read_messages(deps, session, last.span_from if last is not None else None, limit=PAGE)
    if not messages or (last is not None and messages[-1].id == last.last_message_id):
        return []
    now = clock.now()
    episodes = build_episodes(deps, session, messages, last.number if last is not None else 0, now)
    changes = [EpisodeChange(last if number == 0 else None, episode) for number, episode in enumerate(episodes)]
    groups = [EpisodeChange(None, group) for group in make_groups(deps, session, episodes, now)]
    rollups = plan_rollups(deps, session, changes, now)
    try:
        deps.records.commit(make_operations(deps, [*changes, *groups, *rollups], now))
    except (AlreadyExists, StaleVersion) as error:
        raise TryAgain("another process has built the same episodes") from error
    return messages


def find_last_episode(deps: EpisodeDeps, session: Session) -> Episode | None:
    """Return the last episode of a session, which may still grow."""
    where = [Where("session_id", Op.EQ, session.id), Where("level", Op.EQ, EPISODE)]
    rows = deps.records.scan(Episode, session.organization_id, where, order="span_from", descending=True, limit=1)
    return rows[0] if rows else None


def read_messages(
    deps: EpisodeDeps, session: Session, start: datetime | None, end: datetime | None = None, limit: int | None = None
) -> list[Message]:
    """Return the messages of a session in a span of time, oldest first."""
    where = [Where("session_id", Op.EQ, session.id)]
    where += [Where("created_at", Op.GE, start)] if start is not None else []
    where += [Where("created_at", Op.LT, end)] if end is not None else []
    return deps.records.scan(Message, session.organization_id, where, order="created_at", limit=limit)


def build_episodes(
    deps: EpisodeDeps,
    session: Session,
    messages: Sequence[Message],
    number: int,
    now: datetime,
    before: datetime | None = None,
) -> list[Episode]:
    """Return the episodes of consecutive messages, numbered from `number`. The last one may still grow.

    With `before`, messages from that time on are not included. They only show whether the last episode is complete.
    """
    groups = list(split_into_episodes(describe_messages(deps, session.organization_id, messages)))
    is_open = True
    if before is not None and groups:
        groups = [[item for item in group if item.message.created_at < before] for group in groups]
        is_open = bool(groups[-1])
        groups = [group for group in groups if group]
    last = len(groups) - 1 if is_open else None
    return [
        make_episode(session, group, number + index, deps.count_tokens, deps.zone, now, is_active=index == last)
        for index, group in enumerate(groups)
    ]


def describe_messages(deps: EpisodeDeps, organization: str, messages: Sequence[Message]) -> Iterator[EpisodeMessage]:
    """Yield messages with their tokens, days and vectors."""
    vectors = _read_vectors(deps, organization, [message.id for message in messages])
    for message in messages:
        tokens = deps.count_tokens(message.text) if message.text else 0
        yield EpisodeMessage(message, tokens, find_day(message.created_at, deps.zone), vectors.get(message.id))


def _read_vectors(deps: EpisodeDeps, organization: str, message_ids: Sequence[str]) -> dict[str, Vector]:
    """Return the vectors of the first chunks of messages, which were embedded when the messages were stored."""
    where = [
        Where("owner_kind", Op.EQ, "message"),
        Where("owner_id", Op.IN, list(message_ids)),
        Where("model", Op.EQ, deps.model),
        Where("chunk_index", Op.EQ, 0),
    ]
    rows = deps.records.columns(Chunk, organization, ("owner_id", "vector"), where)
    return {owner_id: np.frombuffer(vector, "<f2").astype(np.float32) for owner_id, vector in rows if vector}


def make_groups(deps: EpisodeDeps, session: Session, episodes: Sequence[Episode], now: datetime) -> list[Episode]:
    """Return the sections and chapters that are complete with these episodes."""
    groups: list[Episode] = []
    built_parts = [episode for episode in episodes if not episode.is_active]
    for level, part_level in GROUP_PARTS.items():
        complete_groups = []
        for part in built_parts:
            if part.number % GROUP_SIZE == GROUP_SIZE - 1:
                parts = _read_group(deps, session, part_level, part.number // GROUP_SIZE, built_parts)
                complete_groups.append(make_group(deps, session, level, parts, now))
        groups += complete_groups
        built_parts = complete_groups
    return groups


def _read_group(
    deps: EpisodeDeps, session: Session, level: int, number: int, built_parts: Sequence[Episode]
) -> list[Episode]:
    """Return the parts of a group. Parts that are not among `built_parts` are read from the store."""
    numbers = range(number * GROUP_SIZE, (number + 1) * GROUP_SIZE)
    parts_by_number = {part.number: part for part in built_parts}
    missing_ids = {
        part_number: make_episode_id(session.id, level, part_number)
        for part_number in numbers
        if part_number not in parts_by_number
    }
    stored = deps.records.get(Episode, session.organization_id, list(missing_ids.values())) if missing_ids else {}
    parts_by_number |= {part.number: part for part in stored.values()}
    return [parts_by_number[part_number] for part_number in numbers if part_number in parts_by_number]


def plan_rollups(
    deps: EpisodeDeps, session: Session, changes: Sequence[EpisodeChange], now: datetime
) -> list[EpisodeChange]:
    """Return the changes of the rollups of the session and of periods that result from changes of its episodes."""
    rollup_id = make_episode_id(session.id, SESSION)
    stored = deps.records.get(Episode, session.organization_id, [rollup_id]).get(rollup_id)
    session_change = update_session_rollup(deps, session, stored, changes, now)
    return [session_change, *plan_periods(deps, session, changes, now)]


def plan_periods(
    deps: EpisodeDeps, session: Session, changes: Sequence[EpisodeChange], now: datetime
) -> list[EpisodeChange]:
    """Return the changes of the rollups of periods that result from changes of a session's episodes."""
    changes_by_day: dict[date, list[EpisodeChange]] = {}
    for change in changes:
        changes_by_day.setdefault(find_day(change.after.span_from, deps.zone), []).append(change)
    ids = list(dict.fromkeys(period.make_id(session) for day in changes_by_day for period in list_periods(day)))
    stored = deps.records.get(Episode, session.organization_id, ids) if ids else {}
    plan = _PeriodPlan(deps, session, stored, now)
    days = {
        day: plan.update(find_period(day, DAY), [change.after for change in day_changes], day_changes)
        for day, day_changes in changes_by_day.items()
    }
    plan.update_all(WEEK, days, changes_by_day)
    months = plan.update_all(MONTH, days, changes_by_day)
    plan.update_all(YEAR, months, changes_by_day)
    return plan.changes


class _PeriodPlan:
    """Collects the changes of the rollups of periods."""

    def __init__(self, deps: EpisodeDeps, session: Session, stored: dict[str, Episode], now: datetime) -> None:
        self.changes: list[EpisodeChange] = []
        self._deps = deps
        self._session = session
        self._stored = stored
        self._now = now

    def update(self, period: CalendarPeriod, parts: Sequence[Episode], changes: Sequence[EpisodeChange]) -> Episode:
        before = self._stored.get(period.make_id(self._session))
        change = update_period(self._deps, self._session, period, before, parts, changes, self._now)
        self.changes.append(change)
        return change.after

    def update_all(
        self, level: int, parts: dict[date, Episode], changes_by_day: dict[date, list[EpisodeChange]]
    ) -> dict[date, Episode]:
        """Update each period of a level that has changed parts, and return the updated rollups.

        The keys of `parts`, the changed parts, and of the result are any day of the part or period.
        """
        days_by_period: dict[CalendarPeriod, list[date]] = {}
        for day in parts:
            days_by_period.setdefault(find_period(day, level), []).append(day)
        rollups = {}
        for period, days in days_by_period.items():
            changes = [
                change
                for day, day_changes in changes_by_day.items()
                if find_period(day, level) == period
                for change in day_changes
            ]
            rollups[days[0]] = self.update(period, [parts[day] for day in days], changes)
        return rollups
