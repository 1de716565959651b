"""Match patterns in linear time: the work is at most the length of the text times the size of the pattern.

Python's own `re` backtracks, so that a pattern such as `(a+)+$`, which a caller stores with a tool, could take hours on
a text of forty characters. Here a pattern is a small program that is at all of its possible states at once.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from everhold.errors import InvalidInput, format_value
from everhold.tools.pattern_syntax import Assertion, CharacterSet, Choice, Node, Repeat, Sequence, parse_pattern

MAX_STATES = 2_000
_MAX_PARTS = 20_000
# The most steps of one match. A step takes about a tenth of a microsecond.
MAX_STEPS = 2_000_000
_JUMP = "jump"
_MATCH = "match"


@dataclass(frozen=True)
class _State:
    """What one state accepts, and where it goes: a set takes a character, an assertion and a jump take none."""

    accepts: CharacterSet | Assertion | str
    targets: tuple[int, ...] = ()


@dataclass
class _Program:
    """The states of a pattern. `parts` counts what has been compiled: a part that adds no state takes time, too."""

    states: list[_State] = field(default_factory=list)
    parts: int = 0

    def add(self, accepts: CharacterSet | Assertion | str, *targets: int) -> int:
        if len(self.states) >= MAX_STATES:
            raise _make_size_error()
        self.states.append(_State(accepts, targets))
        return len(self.states) - 1

    def count_part(self) -> None:
        self.parts += 1
        if self.parts > _MAX_PARTS:
            raise _make_size_error()

    @property
    def weight(self) -> int:
        """The most steps that one character of a text takes."""
        sets = sum(len(state.accepts.ranges) for state in self.states if isinstance(state.accepts, CharacterSet))
        return sets + sum(1 + len(state.targets) for state in self.states)


def _make_size_error() -> InvalidInput:
    return InvalidInput("the pattern is too large", remedy="repeat shorter parts, fewer times")


class LinearPattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._program = _Program()
        self._start = _compile(parse_pattern(text), self._program.add(_MATCH), self._program)
        self._weight = self._program.weight

    def matches(self, text: str) -> bool:
        """Return whether the pattern occurs anywhere in a text; `^` and `$` bind it to the ends.

        Raise InvalidInput if the text is too long to be checked with this pattern.
        """
        if len(text) * self._weight > MAX_STEPS:
            raise InvalidInput(
                f"a text of {len(text):,} characters is too long for the pattern {format_value(self.text)}",
                remedy="shorten the text, or give the schema a maxLength",
            )
        current: set[int] = set()
        for position in range(len(text) + 1):
            if self._close(current, text, position):
                return True
            if position < len(text):
                current = self._step(current, text[position])
        return False

    def _close(self, current: set[int], text: str, position: int) -> bool:
        """Add every state that is reached without a character, the start included; return whether one matches."""
        waiting = [self._start, *current]
        current.clear()
        while waiting:
            index = waiting.pop()
            if index in current:
                continue
            current.add(index)
            state = self._program.states[index]
            if state.accepts == _MATCH:
                return True
            if state.accepts == _JUMP or (
                isinstance(state.accepts, Assertion) and _holds(state.accepts, text, position)
            ):
                waiting += state.targets
        return False

    def _step(self, current: set[int], character: str) -> set[int]:
        states = (self._program.states[index] for index in current)
        return {
            state.targets[0]
            for state in states
            if isinstance(state.accepts, CharacterSet) and state.accepts.has(character)
        }


def _compile(node: Node, target: int, program: _Program) -> int:
    """Add the states of a part that goes on to `target`; return its first state."""
    program.count_part()
    match node:
        case CharacterSet() | Assertion():
            return program.add(node, target)
        case Sequence(parts):
            for part in reversed(parts):
                target = _compile(part, target, program)
            return target
        case Choice(options):
            return program.add(_JUMP, *[_compile(option, target, program) for option in options])
        case Repeat():
            return _compile_repeat(node, target, program)


def _compile_repeat(node: Repeat, target: int, program: _Program) -> int:
    start = target
    if node.most is None:
        start = program.add(_JUMP, target)  # the loop, whose body is known after it has been added
        body = _compile(node.part, start, program)
        program.states[start] = _State(_JUMP, (body, target))
    else:
        for _ in range(node.most - node.least):
            start = program.add(_JUMP, _compile(node.part, start, program), target)
    for _ in range(node.least):
        start = _compile(node.part, start, program)
    return start


def _holds(assertion: Assertion, text: str, position: int) -> bool:
    match assertion.kind:
        case "^":
            return position == 0
        case "$":
            return position == len(text)
    at_edge = _is_word(text[position - 1 : position] if position else "") != _is_word(text[position : position + 1])
    return at_edge == (assertion.kind == "b")


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


@lru_cache(maxsize=512)
def compile_pattern(text: str) -> LinearPattern:
    """Return the compiled pattern; raise InvalidInput if it is malformed, too large, or outside the subset."""
    return LinearPattern(text)
