"""Summarise a span of time by the fewest episodes that cover it: years, then months, days and single episodes."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.periods import find_day, find_start
from everhold.episodes.reading import SpanSummary, make_summary
from everhold.episodes.rollups import list_quotes
from everhold.model import Episode, Scope
from everhold.model.episode import DAY, EPISODE, MONTH, YEAR
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import Op, Where

# The maximum number of episodes that are read for each stretch. If it has more, only the newest are read.
_MAX_EPISODES = 500

# The level of the parts of each period.
_PART_LEVELS = {YEAR: MONTH, MONTH: DAY, DAY: EPISODE}


class _Stretch(NamedTuple):
    """A span of time and the level of the episodes that cover it. None as `start` or `end` means no limit."""

    level: int
    start: datetime | None
    end: datetime | None


def summarise_span(
    deps: EpisodeDeps, scope: Scope, after: datetime | None, before: datetime | None, budget: int
) -> SpanSummary:
    """Return a summary of the scope's messages from `after` up to `before`, in at most `budget` tokens.

    The number of episodes that are read for each year of the span does not grow with the number of messages.
    """
    parts = []
    # Periods do not belong to a session, so for a scope with a session the episodes themselves are summarised.
    stretches = (
        [_Stretch(EPISODE, after, before)]
        if "session_id" in scope.limits
        else _split_span(YEAR, after, before, deps.zone)
    )
    for stretch in stretches:
        for episode in _read_episodes(deps, scope, stretch):
            quotes = [quote for quote in list_quotes(episode) if _is_within(quote["at"], after, before)]
            parts.append(quotes)
    return make_summary(deps, parts, budget)


def _is_within(at: str, after: datetime | None, before: datetime | None) -> bool:
    moment = datetime.fromisoformat(at)
    return (after is None or moment >= after) and (before is None or moment < before)


def _split_span(level: int, after: datetime | None, before: datetime | None, zone: tzinfo) -> Iterator[_Stretch]:
    """Yield the stretches of a span: whole periods of a level, and smaller periods before and after them."""
    start = after if after is None else _find_next_start(after, level, zone)
    end = before if before is None else _make_midnight(find_start(find_day(before, zone), level), zone)
    if start is not None and end is not None and start >= end:  # no whole period of this level
        yield from _split_rest(level, after, before, zone)
        return
    if start is not None and after is not None and after < start:
        yield from _split_rest(level, after, start, zone)
    yield _Stretch(level, start, end)
    if end is not None and before is not None and end < before:
        yield from _split_rest(level, end, before, zone)


def _split_rest(level: int, after: datetime | None, before: datetime | None, zone: tzinfo) -> Iterator[_Stretch]:
    """Yield the stretches of a span that has no whole period of a level."""
    part_level = _PART_LEVELS[level]
    if part_level == EPISODE:
        yield _Stretch(EPISODE, after, before)
    else:
        yield from _split_span(part_level, after, before, zone)


def _find_next_start(moment: datetime, level: int, zone: tzinfo) -> datetime:
    """Return the beginning of the first period of a level at or after a time."""
    start = find_start(find_day(moment, zone), level)
    if _make_midnight(start, zone) >= moment:
        return _make_midnight(start, zone)
    try:
        longest = {YEAR: 366, MONTH: 31, DAY: 1}[level]
        return _make_midnight(find_start(start + timedelta(days=longest), level), zone)
    except OverflowError:  # in the last year of the calendar
        return _make_midnight(date.max, zone)


def _make_midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone)


def _read_episodes(deps: EpisodeDeps, scope: Scope, stretch: _Stretch) -> list[Episode]:
    where = [*make_equalities(scope.limits), Where("level", Op.EQ, stretch.level)]
    if stretch.start is not None:
        # An episode of messages may begin before the stretch, but on the same day, because it never spans two days.
        first = stretch.start
        if stretch.level == EPISODE:
            first = _make_midnight(find_day(stretch.start, deps.zone), deps.zone)
        where.append(Where("span_from", Op.GE, first))
    if stretch.end is not None:
        where.append(Where("span_from", Op.LT, stretch.end))
    return deps.records.scan(
        Episode, scope.organization, where, order="span_from", descending=True, limit=_MAX_EPISODES
    )
