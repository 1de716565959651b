"""List episodes, read the details of one, and find sessions whose episodes are not up to date."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import ClassVar

from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.pipeline import find_last_episode, read_messages
from everhold.episodes.rollups import GROUP_SIZE
from everhold.episodes.updating import update_session
from everhold.errors import InvalidInput, NotFound
from everhold.model import Episode, Message, Scope, Session
from everhold.model.episode import CHAPTER, DAY, EPISODE, LEVEL_NAMES, MONTH, SECTION, SESSION, WEEK, YEAR
from everhold.model.fields import is_id
from everhold.model.page import ResultPage
from everhold.model.validation import suggest_name
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import Condition, Op, Page, Where

_LEVELS = {name: level for level, name in LEVEL_NAMES.items()}
# Maps the level of a rollup to the level of the episodes that it consists of.
_PART_LEVELS = {SECTION: EPISODE, CHAPTER: SECTION, SESSION: EPISODE, DAY: EPISODE, WEEK: DAY, MONTH: DAY, YEAR: MONTH}
_MAX_PARTS = 1000


@dataclass(frozen=True, repr=False)
class Episodes(ResultPage[Episode]):
    """A page of episodes. Pass `cursor` to get the next page; it is None on the last one."""

    _items_field: ClassVar[str] = "episodes"

    episodes: tuple[Episode, ...]
    cursor: str | None = None


@dataclass(frozen=True)
class EpisodeDetails:
    """An episode and its sources: its messages, or for a rollup the episodes of the level below.

    For a rollup, `messages` are the messages that it quotes, and `parts` has at most 1,000 episodes.
    """

    episode: Episode
    parts: tuple[Episode, ...] = ()
    messages: tuple[Message, ...] = ()


def read_level(level: str) -> int:
    """Return the number of the level with this name."""
    if level not in _LEVELS:
        remedy = suggest_name(level, _LEVELS) or f"use {', '.join(_LEVELS)}"
        raise InvalidInput(f"no level {level!r} of episodes", value=level, remedy=remedy)
    return _LEVELS[level]


def list_episodes(
    deps: EpisodeDeps,
    scope: Scope,
    *,
    level: int,
    after: datetime | None,
    before: datetime | None,
    limit: int,
    cursor: str | None,
) -> Episodes:
    """Return a page of the episodes of a level that overlap a span of time, newest first."""
    where = [*make_equalities(scope.limits), Where("level", Op.EQ, level), Where("message_count", Op.GT, 0)]
    where += [Where("span_to", Op.GE, after)] if after is not None else []
    where += [Where("span_from", Op.LT, before)] if before is not None else []
    page = _find_page(deps, scope, cursor) if cursor is not None else None
    rows = deps.records.scan(
        Episode, scope.organization, where, order="span_from", descending=True, after=page, limit=limit + 1
    )
    return Episodes(tuple(rows[:limit]), rows[limit - 1].id if len(rows) > limit else None)


def _find_page(deps: EpisodeDeps, scope: Scope, cursor: str) -> Page:
    episode = (
        deps.records.get(Episode, scope.organization, [cursor], deleted=True).get(cursor) if is_id(cursor) else None
    )
    if episode is None or not scope.can_read(episode):
        raise InvalidInput(
            f"invalid cursor {cursor[:40]!r}", value=cursor, remedy="pass the value from the previous page"
        )
    return Page(episode.span_from, (scope.organization, episode.id))


def require_episode(deps: EpisodeDeps, scope: Scope, episode_id: str) -> Episode:
    """Return an episode that the scope may read; raise NotFound without revealing whether another scope has it."""
    episode = deps.records.get(Episode, scope.organization, [episode_id]).get(episode_id)
    if episode is None or not scope.can_read(episode):
        raise NotFound(
            f"no episode {episode_id!r} in scope {scope}",
            value=episode_id,
            remedy="pass the id of an episode that the scope can read",
        )
    return episode


def read_details(deps: EpisodeDeps, episode: Episode, put_back: Callable[[str, str], object]) -> EpisodeDetails:
    """Return an episode with its parts and messages. `put_back` restores an archived session from cold storage."""
    if episode.level == EPISODE:
        return EpisodeDetails(episode, messages=tuple(_read_own_messages(deps, episode, put_back)))
    ids = list(dict.fromkeys(quote["message"] for quote in episode.quotes))
    quoted_messages = deps.records.get(Message, episode.organization_id, ids) if ids else {}
    messages = sorted(quoted_messages.values(), key=lambda message: message.created_at)
    return EpisodeDetails(episode, tuple(_read_parts(deps, episode)), tuple(messages))


def _read_own_messages(
    deps: EpisodeDeps, episode: Episode, put_back: Callable[[str, str], object]
) -> Sequence[Message]:
    session_id = episode.session_id or ""
    session = deps.records.get(Session, episode.organization_id, [session_id]).get(session_id)
    if session is None:
        return ()
    if session.archived_messages:
        put_back(session.organization_id, session.id)
    rows = read_messages(deps, session, episode.span_from, limit=episode.message_count)
    return [message for message in rows if message.created_at <= episode.span_to]


def _read_parts(deps: EpisodeDeps, episode: Episode) -> list[Episode]:
    where: list[Condition] = [
        Where("level", Op.EQ, _PART_LEVELS[episode.level]),
        Where("span_from", Op.GE, episode.span_from),
        Where("span_from", Op.LE, episode.span_to),
        Where("message_count", Op.GT, 0),
        *make_equalities({name: episode.__dict__[name] for name in ("user_id", "project_id", "agent_id")}),
    ]
    if episode.session_id is not None:
        where.append(Where("session_id", Op.EQ, episode.session_id))
    if episode.level in (SECTION, CHAPTER):
        first = episode.number * GROUP_SIZE
        where += [Where("number", Op.GE, first), Where("number", Op.LT, first + GROUP_SIZE)]
    return deps.records.scan(Episode, episode.organization_id, where, order="span_from", limit=_MAX_PARTS)


# sessions that are not up to date


def update_scope(deps: EpisodeDeps, scope: Scope) -> None:
    """Bring the episodes of the scope's sessions up to date."""
    columns = {("id" if column == "session_id" else column): value for column, value in scope.limits.items()}
    for session in find_candidates(deps, scope.organization, make_equalities(columns), make_equalities(scope.limits)):
        for _ in update_session(deps, session):
            pass


def find_candidates(
    deps: EpisodeDeps,
    organization: str | None,
    session_conditions: Sequence[Condition] = (),
    episode_conditions: Sequence[Condition] = (),
) -> Iterator[Session]:
    """Yield the sessions that were active after the end of their last episode.

    The least recently active session comes first, so that an interrupted build continues in the same order.
    """
    where = [Where("level", Op.EQ, SESSION), *episode_conditions]
    columns = ("organization_id", "session_id", "span_to")
    ends = {
        (organization_id, session_id): end
        for organization_id, session_id, end in deps.records.columns(Episode, organization, columns, where)
    }
    rows = deps.records.columns(Session, organization, ("organization_id", "id", "last_active"), session_conditions)
    for organization_id, session_id, last_active in sorted(rows, key=itemgetter(2, 0, 1)):
        end = ends.get((organization_id, session_id))
        if end is None or last_active > end:
            session = deps.records.get(Session, organization_id, [session_id]).get(session_id)
            if session is not None and session.archived_at is None:
                yield session


def find_stale_sessions(deps: EpisodeDeps) -> Iterator[Session]:
    """Yield the sessions of all organizations whose last message is in no episode."""
    for session in find_candidates(deps, None):
        where = [Where("session_id", Op.EQ, session.id)]
        newest = deps.records.scan(
            Message, session.organization_id, where, order="created_at", descending=True, limit=1
        )
        last = find_last_episode(deps, session)
        if newest and (last is None or last.last_message_id != newest[0].id):
            yield session
