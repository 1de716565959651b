"""Summarise a session up to a message."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.pipeline import build_episodes, read_messages
from everhold.episodes.quotes import Quote, choose_quotes, render_quotes
from everhold.episodes.rollups import EPISODE_COUNTS, GROUP_PARTS, GROUP_SIZE, list_quotes, make_group
from everhold.episodes.updating import update_session
from everhold.model import Episode, Message, Scope, Session
from everhold.model.episode import CHAPTER, EPISODE, SECTION
from everhold.schema.operations import Op, Where

# The maximum number of messages without episodes that are summarised directly. If there are more, their episodes are
# built first.
_MAX_UNBUILT = 128
_MOMENT = timedelta(microseconds=1)  # no two messages of a session have the same time


@dataclass(frozen=True)
class SpanSummary:
    """A summary, its number of tokens, and the quotes that it consists of, oldest first."""

    text: str
    tokens: int
    quotes: tuple[Quote, ...] = ()


def summarise_before(
    deps: EpisodeDeps, scope: Scope, session: Session, before: datetime, budget: int, conversation: str | None = None
) -> SpanSummary:
    """Return a summary of the messages of a session before a given message, in at most `budget` tokens.

    `before` is the time of the given message. Later messages do not change the summary. It quotes only messages of the
    scope's user and agent, and only those of `conversation` if that is not None. The time to make it does not grow with
    the session.
    """
    parts = _read_complete_parts(deps, session, before)
    unbuilt = _read_unbuilt(deps, session, parts, before)
    if len(unbuilt) > _MAX_UNBUILT:
        for _ in update_session(deps, session):
            pass
        parts = _read_complete_parts(deps, session, before)
        unbuilt = _read_unbuilt(deps, session, parts, before)
    number = (parts[-1].number + 1) * EPISODE_COUNTS[parts[-1].level] if parts else 0
    parts = _group_parts(
        deps, session, [*parts, *build_episodes(deps, session, unbuilt, number, before, before)], before
    )
    quotes = [
        [
            quote
            for quote in list_quotes(part)
            if is_quote_of(scope, session, quote) and conversation in (None, quote.get("conversation"))
        ]
        for part in parts
    ]
    return make_summary(deps, quotes, budget)


def _read_complete_parts(deps: EpisodeDeps, session: Session, before: datetime) -> list[Episode]:
    """Return the fewest chapters, sections and episodes that cover all complete episodes before a time, oldest
    first."""
    parts: list[Episode] = []
    for level in (CHAPTER, SECTION, EPISODE):
        where = [
            Where("session_id", Op.EQ, session.id),
            Where("level", Op.EQ, level),
            Where("span_from", Op.LT, before),
            Where("span_to", Op.LT, before),
            Where("is_active", Op.EQ, False),
            *([Where("span_from", Op.GT, parts[-1].span_to)] if parts else []),
        ]
        parts += deps.records.scan(Episode, session.organization_id, where, order="span_from")
    return parts


def _read_unbuilt(deps: EpisodeDeps, session: Session, parts: Sequence[Episode], before: datetime) -> list[Message]:
    """Return the messages after the complete episodes up to a time, at most _MAX_UNBUILT + 1."""
    start = parts[-1].span_to + _MOMENT if parts else None
    return read_messages(deps, session, start, before + _MOMENT, limit=_MAX_UNBUILT + 1)


def _group_parts(deps: EpisodeDeps, session: Session, parts: Sequence[Episode], now: datetime) -> list[Episode]:
    """Return the parts with each complete set of episodes or sections replaced by its section or chapter."""
    grouped_parts = list(parts)
    for level, part_level in GROUP_PARTS.items():
        numbers = [
            part.number // GROUP_SIZE for part in grouped_parts if part.level == part_level and not part.is_active
        ]
        for number in [number for number, count in Counter(numbers).items() if count == GROUP_SIZE]:
            indexes = [
                index
                for index, part in enumerate(grouped_parts)
                if part.level == part_level and part.number // GROUP_SIZE == number
            ]
            members = [grouped_parts[index] for index in indexes]
            grouped_parts[indexes[0] : indexes[-1] + 1] = [make_group(deps, session, level, members, now)]
    return grouped_parts


def make_summary(deps: EpisodeDeps, quotes: Sequence[Sequence[Quote]], budget: int) -> SpanSummary:
    """Return a summary that quotes as many of the parts as fit into the budget."""
    chosen_quotes = choose_quotes(quotes, budget, deps.count_tokens)
    text = render_quotes(chosen_quotes)
    return SpanSummary(text, deps.count_tokens(text) if text else 0, tuple(chosen_quotes))


def is_quote_of(scope: Scope, session: Session, quote: Quote) -> bool:
    """Return whether a quoted message is of the scope's user and agent.

    A user or agent of None matches every message.
    """
    user, agent = quote.get("user", session.user_id), quote.get("agent", session.agent_id)
    return scope.user in (None, user) and scope.agent in (None, agent)
