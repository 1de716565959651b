"""Choose which of the last turns of a conversation go into a prompt.

Only as many messages are read as the budget can hold, however long the session is. The first turn is chosen so that it
stays the same while the conversation grows, and moves in steps: a prompt cache can then reuse what it has read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from everhold.context.calls import find_lost_returns, list_spans
from everhold.context.parts import PromptTurn, count_turn, find_level, shorten_turn
from everhold.context.section import Counter
from everhold.model import Message

# Returns up to `limit` messages that precede a message, or the last ones, newest first.
ReadOlder = Callable[[int, Message | None], Sequence[Message]]

ReadTurn = Callable[[Message], PromptTurn]

# How many tokens a message is thought to have before the first ones are counted.
_USUAL_TOKENS = 32
_MIN_PAGE = 16
_MAX_PAGE = 1_000
# How many messages further back the call of a return is looked for. Few are said while a tool runs.
_CALL_SEARCH = 50
# The share of their room that the turns keep filled when the first ones are dropped. A lower share makes longer steps.
_SHARE_KEPT = 0.5


@dataclass(frozen=True)
class RecentTurns:
    """The last turns that fit, oldest first, with their tokens; `has_older` says that others precede them."""

    messages: tuple[Message, ...] = ()
    turns: tuple[PromptTurn, ...] = ()
    costs: tuple[int, ...] = ()
    has_older: bool = False
    shortened_ids: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(self.costs)


class _OlderMessages:
    """The messages of a conversation from the last one backwards, read page by page as their tokens require."""

    def __init__(self, read_older: ReadOlder, read_turn: ReadTurn, counter: Counter) -> None:
        self._read_older = read_older
        self._read_turn = read_turn
        self._counter = counter
        self._page: list[Message] = []
        self._is_last_page = False
        self.messages: list[Message] = []
        self.turns: list[PromptTurn] = []
        self.costs: list[int] = []
        self.tokens = 0

    @property
    def has_older(self) -> bool:
        return bool(self._page) or not self._is_last_page

    def take(self, room: int) -> PromptTurn | None:
        """Take the next older message; `room` is about how many tokens will be taken in all. None if there is none."""
        if not self._page and not self._is_last_page:
            self._fill(room)
        if not self._page:
            return None
        message = self._page.pop()
        turn = self._read_turn(message)
        self.messages.append(message)
        self.turns.append(turn)
        self.costs.append(count_turn(turn, self._counter))
        self.tokens += self.costs[-1]
        return turn

    def _fill(self, room: int) -> None:
        """Read as many messages as are likely to be taken, and some in reserve."""
        mean = self.tokens / len(self.messages) if self.messages else _USUAL_TOKENS
        limit = min(max(int((room - self.tokens) / mean), 0) + _MIN_PAGE, _MAX_PAGE)
        page = self._read_older(limit, self.messages[-1] if self.messages else None)
        self._is_last_page = len(page) < limit
        self._page = list(reversed(page))


def read_recent(read_older: ReadOlder, read_turn: ReadTurn, room: int, counter: Counter) -> RecentTurns:
    """Return the last turns, until they cost more than `room` tokens or the conversation has no others."""
    older = _OlderMessages(read_older, read_turn, counter)
    while older.tokens <= room and older.take(room) is not None:
        pass
    # The turns may begin between a call of a tool and its return.
    lost = find_lost_returns(older.turns[::-1]) if older.tokens > room else set()
    limit = len(older.messages) + _CALL_SEARCH
    while lost and len(older.messages) < limit and (turn := older.take(room)) is not None:
        lost -= {call.id for call in turn.calls} | ({None} if turn.calls else set())
    return RecentTurns(tuple(older.messages[::-1]), tuple(older.turns[::-1]), tuple(older.costs[::-1]), older.has_older)


def select_recent(recent: RecentTurns, room: int, counter: Counter) -> RecentTurns:
    """Return the turns from a stable beginning on that cost at most `room` tokens.

    Between half of the room and all of it is used. Of the places within these bounds where the turns may begin, the one
    with the roundest position in binary is chosen: it stays the roundest while the bounds move on, until it no longer
    fits or a rounder one comes, on average after as many turns as at least a quarter of the room holds.
    """
    borders = _list_borders(recent)
    left = _accumulate_from_end(recent.costs)
    fitting = [place for place in borders if left[place] <= room]
    if not fitting:
        return _shrink_last(recent, borders, room, counter)
    steady = [place for place in fitting if left[place] > room * _SHARE_KEPT] or fitting[:1]
    # A conversation that begins with what a user said reads best, and its turn is whole.
    asked = [place for place in borders if recent.turns[place].role == "user"]
    ranks = _rank_places(recent, borders if set(steady).isdisjoint(asked) else asked)
    return _take_from(recent, max(set(steady) & ranks.keys(), key=lambda place: (ranks[place], -place)))


def _rank_places(recent: RecentTurns, places: Sequence[int]) -> dict[int, int]:
    """Return how round the position of each place is: the power of two that divides it or a skipped position before.

    Positions may be missing: of deleted messages, of other conversations, and of messages where no turn may begin. Each
    counts for the next place, so that there is always a roundest one.
    """
    positions = [recent.messages[place].position or 0 for place in places]
    # The highest bit in which two numbers differ is the highest power of two that divides a number between them.
    steps = zip([positions[0] - 1, *positions], positions, strict=False)
    return {place: (before ^ position).bit_length() for place, (before, position) in zip(places, steps, strict=True)}


def _list_borders(recent: RecentTurns) -> list[int]:
    """Return the places where the turns may begin: not between a call of a tool and its return."""
    spans = list_spans(recent.turns)
    inside = {place for first, last in spans for place in range(first + 1, last + 1)}
    return [place for place in range(len(recent.turns)) if place not in inside]


def _accumulate_from_end(costs: Sequence[int]) -> list[int]:
    return list(accumulate(reversed(costs)))[::-1]


def _take_from(recent: RecentTurns, first: int) -> RecentTurns:
    return RecentTurns(
        recent.messages[first:], recent.turns[first:], recent.costs[first:], recent.has_older or first > 0
    )


def _shrink_last(recent: RecentTurns, borders: Sequence[int], room: int, counter: Counter) -> RecentTurns:
    """Return as much as fits of the last turns that cannot be separated.

    That is the last message with the calls that it answers, cut if they are too long, then others while they fit.
    """
    first = borders[-1] if borders else 0
    tail = _take_from(recent, first)
    if not tail.turns:
        return tail
    groups = _group_calls(tail)
    newest = _shorten_group(tail, groups[0], room, counter)
    used = sum(count_turn(turn, counter) for turn in newest.values())
    kept = dict(newest)
    for group in groups[1:] if newest else ():
        cost = sum(tail.costs[place] for place in group)
        if used + cost > room:
            break
        kept |= {place: tail.turns[place] for place in group}
        used += cost
    places = sorted(kept)
    return RecentTurns(
        tuple(tail.messages[place] for place in places),
        tuple(kept[place] for place in places),
        tuple(count_turn(kept[place], counter) for place in places),
        recent.has_older or first > 0 or len(places) < len(tail.turns),
        tuple(tail.messages[place].id for place in places if kept[place] != tail.turns[place]),
    )


def _group_calls(recent: RecentTurns) -> list[list[int]]:
    """Return the places of the turns in groups: a call with its returns, or a single turn; the newest group first."""
    group_of = {place: {place} for place in range(len(recent.turns))}
    for first, last in list_spans(recent.turns):
        joined = group_of[first] | group_of[last]
        for place in joined:
            group_of[place] = joined
    groups = {min(group): sorted(group) for group in group_of.values()}
    return sorted(groups.values(), key=lambda group: group[-1], reverse=True)


def _shorten_group(recent: RecentTurns, group: Sequence[int], room: int, counter: Counter) -> dict[int, PromptTurn]:
    """Return the turns of a group, the longest cut so that all fit; empty if they cannot be cut that far."""
    costs = [recent.costs[place] for place in group]
    most = find_level(costs, room)
    shorter = {
        place: recent.turns[place] if cost <= most else shorten_turn(recent.turns[place], most, counter)
        for place, cost in zip(group, costs, strict=True)
    }
    turns = {place: turn for place, turn in shorter.items() if turn is not None}
    return turns if len(turns) == len(group) else {}
