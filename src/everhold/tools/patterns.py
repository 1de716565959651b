"""Match regular expressions in linear time: the work is at most the text's length times the pattern's size.

Python's `re` backtracks: a pattern such as `(a+)+$`, which a caller may store with a tool, could take hours on forty
characters. Here a pattern is compiled to a nondeterministic finite automaton (NFA), and matching keeps the set of
all states that the automaton may be in (Thompson's algorithm).
"""

from dataclasses import dataclass, field
from functools import lru_cache

from everhold.errors import InvalidInput, format_value
from everhold.tools.pattern_syntax import Assertion, CharacterSet, Choice, Node, Repeat, Sequence, parse_pattern

MAX_STATES = 2_000
# The syntax nodes that may be compiled. A repeated empty group, such as `(){1000}`, adds no states but takes time.
_MAX_NODES = 20_000
# The most steps of one match. A step takes about a tenth of a microsecond.
MAX_STEPS = 2_000_000
# What a state accepts besides characters and assertions: nothing (an epsilon transition), or the end of the match.
_EPSILON = "epsilon"
_MATCH = "match"


@dataclass(frozen=True)
class _State:
    """A state of the automaton, and the states that follow it.

    A character set consumes one character. An assertion and an epsilon transition consume none.
    """

    accepts: CharacterSet | Assertion | str
    targets: tuple[int, ...] = ()


@dataclass
class _Program:
    """The automaton of a pattern. `nodes` is the number of syntax nodes that were compiled."""

    states: list[_State] = field(default_factory=list)
    nodes: int = 0

    def add(self, accepts: CharacterSet | Assertion | str, *targets: int) -> int:
        """Add a state and return its index."""
        if len(self.states) >= MAX_STATES:
            raise _make_size_error()
        self.states.append(_State(accepts, targets))
        return len(self.states) - 1

    def count_node(self) -> None:
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise _make_size_error()

    @property
    def steps_per_character(self) -> int:
        """The most steps that one character of a text can take."""
        sets = sum(len(state.accepts.ranges) for state in self.states if isinstance(state.accepts, CharacterSet))
        return sets + sum(1 + len(state.targets) for state in self.states)


def _make_size_error() -> InvalidInput:
    return InvalidInput("the pattern is too large", remedy="shorten it, or repeat its parts fewer times")


class LinearPattern:
    """A compiled regular expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._program = _Program()
        self._start = _compile(parse_pattern(text), self._program.add(_MATCH), self._program)
        self._steps_per_character = self._program.steps_per_character

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches any part of a text. `^` and `$` anchor it to the start and the end.

        Raise InvalidInput if the text is too long to be checked with this pattern.
        """
        if len(text) * self._steps_per_character > MAX_STEPS:
            raise InvalidInput(
                f"a text of {len(text):,} characters is too long for the pattern {format_value(self.text)}",
                remedy="shorten the text, or give the schema a maxLength",
            )
        current: set[int] = set()
        for position in range(len(text) + 1):
            if self._add_epsilon_closure(current, text, position):
                return True
            if position < len(text):
                current = self._consume(current, text[position])
        return False

    def _add_epsilon_closure(self, current: set[int], text: str, position: int) -> bool:
        """Add the states that can be reached without a character; return whether one of them ends a match.

        The start is added at every position, because a match may begin anywhere.
        """
        pending = [self._start, *current]
        current.clear()
        while pending:
            index = pending.pop()
            if index in current:
                continue
            current.add(index)
            state = self._program.states[index]
            if state.accepts == _MATCH:
                return True
            if state.accepts == _EPSILON or (
                isinstance(state.accepts, Assertion) and _is_true_at(state.accepts, text, position)
            ):
                pending += state.targets
        return False

    def _consume(self, current: set[int], character: str) -> set[int]:
        """Return the states that follow after a character."""
        states = (self._program.states[index] for index in current)
        return {
            state.targets[0]
            for state in states
            if isinstance(state.accepts, CharacterSet) and state.accepts.contains(character)
        }


def _compile(node: Node, target: int, program: _Program) -> int:
    """Add the states of a syntax node, after which the state `target` follows; return the first of them.

    A pattern is compiled from its end to its beginning, because each state needs the index of the state after it.
    """
    program.count_node()
    match node:
        case CharacterSet() | Assertion():
            return program.add(node, target)
        case Sequence(parts):
            for part in reversed(parts):
                target = _compile(part, target, program)
            return target
        case Choice(options):
            return program.add(_EPSILON, *[_compile(option, target, program) for option in options])
        case Repeat():
            return _compile_repeat(node, target, program)


def _compile_repeat(node: Repeat, target: int, program: _Program) -> int:
    start = target
    if node.maximum is None:
        # The body of the loop goes back to this state, so the state is added first and gets its targets afterwards.
        start = program.add(_EPSILON, target)
        body = _compile(node.part, start, program)
        program.states[start] = _State(_EPSILON, (body, target))
    else:
        for _ in range(node.maximum - node.minimum):
            start = program.add(_EPSILON, _compile(node.part, start, program), target)
    for _ in range(node.minimum):
        start = _compile(node.part, start, program)
    return start


def _is_true_at(assertion: Assertion, text: str, position: int) -> bool:
    match assertion.kind:
        case "^":
            return position == 0
        case "$":
            return position == len(text)
    # Before the first character and after the last one the slice is empty, which is not a word character.
    before = text[position - 1 : position] if position else ""
    is_boundary = _is_word(before) != _is_word(text[position : position + 1])
    return is_boundary if assertion.kind == "b" else not is_boundary


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


@lru_cache(maxsize=512)
def compile_pattern(text: str) -> LinearPattern:
    """Return the compiled pattern; raise InvalidInput if it is malformed, too large, or outside the subset."""
    return LinearPattern(text)
