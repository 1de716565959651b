"""Rollups: summaries of limited size that cover the episodes of a section, a chapter, a session or a period of time.

The rollup of a session or a period is updated incrementally: the quotes of changed parts are replaced, and then the
best quotes are chosen from those that the rollup has. So an update does not cost more if the rollup covers more
episodes.
"""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from everhold.episodes.building import MAX_PARTICIPANTS, make_owner_values
from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.ids import make_episode_id
from everhold.episodes.periods import CalendarPeriod, find_day, find_period
from everhold.episodes.quotes import Quote, choose_quotes, render_quotes
from everhold.model import Episode, Session
from everhold.model.episode import CHAPTER, DAY, EPISODE, MONTH, SECTION, SESSION, WEEK, YEAR

# The maximum number of tokens of a rollup's summary.
ROLLUP_TOKENS = 400

# The number of episodes in a section, and of sections in a chapter.
GROUP_SIZE = 16
# The level of the parts of a section and of a chapter.
GROUP_PARTS = {SECTION: EPISODE, CHAPTER: SECTION}
# The number of episodes that a row of each level covers.
EPISODE_COUNTS = {EPISODE: 1, SECTION: GROUP_SIZE, CHAPTER: GROUP_SIZE**2}

# Maps the level of a longer period to the level of its parts, from which quotes are chosen evenly. The parts of a day
# or a session are episodes.
_PART_LEVELS = {WEEK: DAY, MONTH: DAY, YEAR: MONTH}


class EpisodeChange(NamedTuple):
    """An episode before and after a change. `before` is None if the episode is new."""

    before: Episode | None
    after: Episode


def list_quotes(episode: Episode) -> list[Quote]:
    """Return the quotes of an episode with the ids of their episode and session, as rollups store them."""
    return [{"episode": episode.id, "session": episode.session_id, **quote} for quote in episode.quotes]


def make_group(deps: EpisodeDeps, session: Session, level: int, parts: Sequence[Episode], now: datetime) -> Episode:
    """Return the section of 16 episodes, or the chapter of 16 sections, all of which are complete."""
    number = parts[0].number // GROUP_SIZE
    quotes = choose_quotes([list_quotes(part) for part in parts], ROLLUP_TOKENS, deps.count_tokens)
    return _make_rollup(
        {
            **make_owner_values(session, now),
            "id": make_episode_id(session.id, level, number),
            "session_id": session.id,
            "level": level,
            "number": number,
            "parent_ids": [make_episode_id(session.id, SESSION)],
            "name": None,
            "is_active": False,
        },
        parts,
        quotes,
        sum(part.message_count for part in parts),
        sum(part.token_count for part in parts),
    )


def update_session_rollup(
    deps: EpisodeDeps, session: Session, before: Episode | None, changes: Sequence[EpisodeChange], now: datetime
) -> EpisodeChange:
    """Return the change of a session's rollup that results from changes of its episodes."""
    values = {
        **make_owner_values(session, now),
        "id": make_episode_id(session.id, SESSION),
        "session_id": session.id,
        "level": SESSION,
        "name": session.title,
    }
    return _update(deps, values, before, [change.after for change in changes], changes)


def update_period(
    deps: EpisodeDeps,
    session: Session,
    period: CalendarPeriod,
    before: Episode | None,
    parts: Sequence[Episode],
    changes: Sequence[EpisodeChange],
    now: datetime,
) -> EpisodeChange:
    """Return the change of a period's rollup.

    `parts` are the parts of the period that have changed, and `changes` the episodes that have changed in them.
    """
    values = {
        **make_owner_values(session, now),
        "id": period.make_id(session),
        "session_id": None,
        "level": period.level,
        "name": period.name,
    }
    return _update(deps, values, before, parts, changes)


def _update(
    deps: EpisodeDeps,
    values: dict[str, Any],
    before: Episode | None,
    parts: Sequence[Episode],
    changes: Sequence[EpisodeChange],
) -> EpisodeChange:
    """Return the change of a rollup with the new quotes of changed parts and with adjusted counts."""
    level = values["level"]
    changed_parts = {part.id if part.level == EPISODE else part.name for part in parts}
    quotes_by_part: dict[Hashable, list[Quote]] = {}
    for quote in before.quotes if before is not None else ():
        part = _find_part(quote, level, deps)
        if part not in changed_parts:
            quotes_by_part.setdefault(part, []).append(quote)
    quotes = choose_quotes([*quotes_by_part.values(), *map(list_quotes, parts)], ROLLUP_TOKENS, deps.count_tokens)
    # A rollup without messages still has the time span of its deleted messages, which must be ignored.
    stored_rollups = [before] if before is not None and before.message_count else []
    added_rows = [*stored_rollups, *(change.after for change in changes)]
    replaced_rows = [change.before for change in changes if change.before is not None]
    message_count = sum(row.message_count for row in added_rows) - sum(row.message_count for row in replaced_rows)
    token_count = sum(row.token_count for row in added_rows) - sum(row.token_count for row in replaced_rows)
    constant_values = {"number": 0, "parent_ids": [], "is_active": True}
    return EpisodeChange(
        before,
        _make_rollup({**values, **constant_values}, [*stored_rollups, *parts], quotes, message_count, token_count),
    )


def _find_part(quote: Quote, level: int, deps: EpisodeDeps) -> Hashable:
    """Return the part of a rollup that a quote comes from: the name of a day or month, or the id of an episode."""
    part_level = _PART_LEVELS.get(level)
    return quote["episode"] if part_level is None else find_period(find_day(quote["at"], deps.zone), part_level).name


def _make_rollup(
    values: dict[str, Any], parts: Sequence[Episode], quotes: Sequence[Quote], messages: int, tokens: int
) -> Episode:
    """Return the episode that combines `parts`, with the given quotes and numbers of messages and tokens."""
    first = min(parts, key=lambda part: part.span_from)
    last = max(parts, key=lambda part: part.span_to)
    return Episode.build_unchecked(
        {
            **values,
            "span_from": first.span_from,
            "span_to": last.span_to,
            "summary": render_quotes(quotes),
            "quotes": list(quotes),
            "topics": [],
            "key_facts": [],
            "participants": list_speakers(quotes),
            "first_message_id": first.first_message_id,
            "last_message_id": last.last_message_id,
            "message_count": max(messages, 0),
            "token_count": max(tokens, 0),
        }
    )


def list_speakers(quotes: Iterable[Quote]) -> list[str]:
    """Return the speakers of the quotes, each once, at most MAX_PARTICIPANTS."""
    return list(dict.fromkeys(quote["speaker"] for quote in quotes))[:MAX_PARTICIPANTS]
