"""Choose which of the last turns of a conversation go into a prompt.

Only about as many messages are read as fit into the budget, however long the session is. The first turn stays the same
for many turns while the conversation grows, and then moves by a larger step, so that a prompt cache can be reused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from everhold.context.calls import find_missing_calls, list_spans
from everhold.context.parts import PromptTurn, count_turn, find_level, shorten_turn
from everhold.context.section import Counter
from everhold.model import Message

# Returns up to a number of messages before a message, or the last ones if it is None, newest first.
ReadOlder = Callable[[int, Message | None], Sequence[Message]]

ReadTurn = Callable[[Message], PromptTurn]

# The assumed number of tokens of a message before any is counted.
_USUAL_TOKENS = 32
# The minimum and the maximum number of messages that are read at once.
_MIN_PAGE = 16
_MAX_PAGE = 1_000
# The number of further messages in which the call of a return is searched. Few are written while a tool runs.
_CALL_SEARCH = 50
# The share of the room that remains filled when the first turns are dropped. A lower share makes larger steps.
_SHARE_KEPT = 0.5


@dataclass(frozen=True)
class RecentTurns:
    """The last turns that fit, oldest first, with their tokens. `has_older`: whether there are older messages."""

    messages: tuple[Message, ...] = ()
    turns: tuple[PromptTurn, ...] = ()
    costs: tuple[int, ...] = ()
    has_older: bool = False
    shortened_ids: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(self.costs)


class _OlderMessages:
    """Reads the messages of a conversation backwards from the last one, in pages."""

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
        """Add the next older message and return its turn, or None if there is none.

        `room` is roughly the total number of tokens that will be taken.
        """
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
        """Read a page with about as many messages as will be taken, and a few more."""
        mean = self.tokens / len(self.messages) if self.messages else _USUAL_TOKENS
        limit = min(max(int((room - self.tokens) / mean), 0) + _MIN_PAGE, _MAX_PAGE)
        page = self._read_older(limit, self.messages[-1] if self.messages else None)
        self._is_last_page = len(page) < limit
        self._page = list(reversed(page))


def read_recent(read_older: ReadOlder, read_turn: ReadTurn, room: int, counter: Counter) -> RecentTurns:
    """Return the last turns, until they cost more than `room` tokens or there are no older ones."""
    older = _OlderMessages(read_older, read_turn, counter)
    while older.tokens <= room and older.take(room) is not None:
        pass
    # The first turn may be after a call of a tool and before its return. Then older messages are read up to the call.
    missing_calls = find_missing_calls(older.turns[::-1]) if older.tokens > room else set()
    limit = len(older.messages) + _CALL_SEARCH
    while missing_calls and len(older.messages) < limit and (turn := older.take(room)) is not None:
        missing_calls -= {call.id for call in turn.calls} | ({None} if turn.calls else set())
    return RecentTurns(tuple(older.messages[::-1]), tuple(older.turns[::-1]), tuple(older.costs[::-1]), older.has_older)


def select_recent(recent: RecentTurns, room: int, counter: Counter) -> RecentTurns:
    """Return the last turns that cost at most `room` tokens, with a first turn that rarely changes.

    They use between half of the room and all of it. Of the possible first turns, the one whose position is divisible by
    the highest power of two is chosen. It stays the first while the conversation grows, until it no longer fits or
    there is one with a higher power: on average, for at least as many turns as fit into a quarter of the room.
    """
    borders = _list_borders(recent)
    tokens_from = _accumulate_from_end(recent.costs)
    fitting_borders = [index for index in borders if tokens_from[index] <= room]
    if not fitting_borders:
        return _shrink_last(recent, borders, room, counter)
    well_filled = [index for index in fitting_borders if tokens_from[index] > room * _SHARE_KEPT] or fitting_borders[:1]
    # A beginning with a message of a user is preferred: it is easier to read and has a whole turn.
    user_turns = [index for index in borders if recent.turns[index].role == "user"]
    ranks = _rank_borders(recent, borders if set(well_filled).isdisjoint(user_turns) else user_turns)
    return _take_from(recent, max(set(well_filled) & ranks.keys(), key=lambda index: (ranks[index], -index)))


def _rank_borders(recent: RecentTurns, borders: Sequence[int]) -> dict[int, int]:
    """Return a rank by turn index: the higher, the higher the power of two that divides the position of its message.

    Positions without a possible first turn (deleted messages, other conversations, returns of tools) count for the next
    turn that may be first, so that one turn always has the highest rank.
    """
    positions = [recent.messages[index].position or 0 for index in borders]
    # The highest bit in which two numbers differ is the highest power of two that divides a number after the first and
    # up to the second.
    steps = zip([positions[0] - 1, *positions], positions, strict=False)
    return {
        index: (previous ^ position).bit_length() for index, (previous, position) in zip(borders, steps, strict=True)
    }


def _list_borders(recent: RecentTurns) -> list[int]:
    """Return the indexes of the turns that may be the first: all that are not between a call and its return."""
    spans = list_spans(recent.turns)
    inside_calls = {index for first, last in spans for index in range(first + 1, last + 1)}
    return [index for index in range(len(recent.turns)) if index not in inside_calls]


def _accumulate_from_end(costs: Sequence[int]) -> list[int]:
    return list(accumulate(reversed(costs)))[::-1]


def _take_from(recent: RecentTurns, first: int) -> RecentTurns:
    return RecentTurns(
        recent.messages[first:], recent.turns[first:], recent.costs[first:], recent.has_older or first > 0
    )


def _shrink_last(recent: RecentTurns, borders: Sequence[int], room: int, counter: Counter) -> RecentTurns:
    """Return as much as fits of the turns after the last border, which are too long as a whole.

    The last message is kept with the calls that it answers, cut if they are too long, then older groups while they fit.
    """
    first = borders[-1] if borders else 0
    tail = _take_from(recent, first)
    if not tail.turns:
        return tail
    groups = _group_calls(tail)
    newest = _shorten_group(tail, groups[0], room, counter)
    used_tokens = sum(count_turn(turn, counter) for turn in newest.values())
    kept_turns = dict(newest)
    for group in groups[1:] if newest else ():
        cost = sum(tail.costs[index] for index in group)
        if used_tokens + cost > room:
            break
        kept_turns |= {index: tail.turns[index] for index in group}
        used_tokens += cost
    indexes = sorted(kept_turns)
    return RecentTurns(
        tuple(tail.messages[index] for index in indexes),
        tuple(kept_turns[index] for index in indexes),
        tuple(count_turn(kept_turns[index], counter) for index in indexes),
        recent.has_older or first > 0 or len(indexes) < len(tail.turns),
        tuple(tail.messages[index].id for index in indexes if kept_turns[index] != tail.turns[index]),
    )


def _group_calls(recent: RecentTurns) -> list[list[int]]:
    """Return the indexes of the turns in groups of a call with its returns or of a single turn, newest group first."""
    group_of = {index: {index} for index in range(len(recent.turns))}
    for first, last in list_spans(recent.turns):
        joined_group = group_of[first] | group_of[last]
        for index in joined_group:
            group_of[index] = joined_group
    groups = {min(group): sorted(group) for group in group_of.values()}
    return sorted(groups.values(), key=lambda group: group[-1], reverse=True)


def _shorten_group(recent: RecentTurns, group: Sequence[int], room: int, counter: Counter) -> dict[int, PromptTurn]:
    """Return the turns of a group by index, with the longest cut so that all fit; empty if that is impossible."""
    costs = [recent.costs[index] for index in group]
    level = find_level(costs, room)
    shorter = {
        index: recent.turns[index] if cost <= level else shorten_turn(recent.turns[index], level, counter)
        for index, cost in zip(group, costs, strict=True)
    }
    turns = {index: turn for index, turn in shorter.items() if turn is not None}
    return turns if len(turns) == len(group) else {}
