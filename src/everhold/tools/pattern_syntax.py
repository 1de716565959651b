"""Read a regular expression of the subset that is matched in linear time.

The subset means the same in ECMAScript, which JSON Schema names, and here: characters and escapes, `.`, classes such as
`[a-z0-9_]`, `\\d \\w \\s` and their opposites, groups, `|`, the quantifiers `* + ? {2} {2,} {2,5}`, also lazy, and the
assertions `^ $ \\b \\B`. Look-around, back references, flags and `\\p{…}` are refused.
"""

from dataclasses import dataclass
from typing import NamedTuple

from everhold.errors import InvalidInput, format_value

MAX_PATTERN_LENGTH = 1_000
MAX_GROUP_DEPTH = 20
MAX_REPEAT = 1_000

_LAST = 0x10FFFF
_DIGITS = ((0x30, 0x39),)
_WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
_LINE_ENDS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CharacterSet:
    """One character whose code point is in one of the ranges."""

    ranges: Ranges

    def contains(self, character: str) -> bool:
        code = ord(character)
        return any(first <= code <= last for first, last in self.ranges)


class Assertion(NamedTuple):
    """A condition on a position: its `kind` is `^`, `$`, `b` or `B`."""

    kind: str


@dataclass(frozen=True)
class Sequence:
    """Parts that follow each other."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True)
class Choice:
    """Alternatives, of which one matches."""

    options: "tuple[Node, ...]"


@dataclass(frozen=True)
class Repeat:
    """A part that is repeated. If `maximum` is None, there is no upper limit."""

    part: "Node"
    minimum: int
    maximum: int | None


Node = CharacterSet | Assertion | Sequence | Choice | Repeat


def parse_pattern(pattern: str) -> Node:
    """Return the syntax tree of a pattern; raise InvalidInput if it is malformed or outside the subset."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidInput(f"the pattern has {len(pattern):,} characters", remedy=f"use at most {MAX_PATTERN_LENGTH:,}")
    return _Parser(pattern).parse()


class _Parser:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._parse_choice()
        if self._position < len(self._pattern):
            raise self._refuse("a ) without a (")
        return node

    def _refuse(self, fact: str, remedy: str = "correct it") -> InvalidInput:
        return InvalidInput(
            f"the pattern {format_value(self._pattern)} has {fact} at position {self._position}",
            value=self._pattern,
            remedy=remedy,
        )

    def _peek(self, length: int = 1) -> str:
        return self._pattern[self._position : self._position + length]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise self._refuse("an unexpected end")
        self._position += 1
        return character

    def _parse_choice(self) -> Node:
        options = [self._parse_sequence()]
        while self._peek() == "|":
            self._position += 1
            options.append(self._parse_sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _parse_sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._parse_repeat())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _parse_repeat(self) -> Node:
        part = self._parse_part()
        bounds = self._read_quantifier()
        if bounds is None:
            return part
        if isinstance(part, Assertion):
            raise self._refuse(f"a repeated {part.kind}")
        if self._peek() == "?":  # a lazy quantifier matches the same texts
            self._position += 1
        if self._peek() in ("*", "+", "?") or self._peek() == "{":
            raise self._refuse("a quantifier after a quantifier")
        return Repeat(part, *bounds)

    def _read_quantifier(self) -> tuple[int, int | None] | None:
        sign = self._peek()
        if sign in _QUANTIFIERS:
            self._position += 1
            return _QUANTIFIERS[sign]
        if sign != "{":
            return None
        bounds_text, closing, _ = self._pattern[self._position + 1 :].partition("}")
        least, comma, most = bounds_text.partition(",")
        is_number = least.isascii() and least.isdigit() and (not most or (most.isascii() and most.isdigit()))
        if not closing or not is_number or len(bounds_text) > 10:
            raise self._refuse("a { that begins no quantifier", "write {2}, {2,} or {2,5}, or \\{ for the character")
        bounds = (int(least), int(most) if most else None if comma else int(least))
        if bounds[1] is not None and bounds[1] < bounds[0]:
            raise self._refuse("a quantifier whose maximum is below its minimum")
        if max(bounds[0], bounds[1] or 0) > MAX_REPEAT:
            raise self._refuse("a large quantifier", f"repeat at most {MAX_REPEAT:,} times")
        self._position += len(bounds_text) + 2
        return bounds

    def _parse_part(self) -> Node:
        character = self._take()
        if character == "(":
            return self._parse_group()
        if character == "[":
            return self._parse_class()
        if character in ("^", "$"):
            return Assertion(character)
        if character == "\\" and self._peek() in ("b", "B"):
            return Assertion(self._take())
        if character in ("*", "+", "?", "{", "}", "]"):
            self._position -= 1
            raise self._refuse(f"a bare {character}", f"write \\{character} for the character")
        return CharacterSet(self._parse_character(character))

    def _parse_character(self, character: str) -> Ranges:
        if character == "\\":
            return self._parse_escape()
        return _invert(_LINE_ENDS) if character == "." else ((ord(character), ord(character)),)

    def _parse_group(self) -> Node:
        """Parse a group after its opening bracket. Names of groups are ignored."""
        if self._peek() == "?":
            if self._peek(2) == "?:":
                self._position += 2
            elif self._peek(2) == "?<" and self._peek(3) not in ("?<=", "?<!"):
                while self._take() != ">":
                    pass
            else:
                raise self._refuse("a look-around or a flag", "leave it out: only plain groups are matched")
        self._depth += 1
        if self._depth > MAX_GROUP_DEPTH:
            raise self._refuse("groups too deep inside each other", f"nest at most {MAX_GROUP_DEPTH}")
        node = self._parse_choice()
        self._depth -= 1
        if self._take() != ")":
            raise self._refuse("a ( without a )")
        return node

    def _parse_class(self) -> Node:
        """Parse a character class after its opening bracket."""
        is_inverted = self._peek() == "^"
        self._position += is_inverted
        ranges: list[tuple[int, int]] = []
        while self._peek() != "]":
            first = self._parse_member()
            is_range = self._peek() == "-" and self._peek(2) not in ("-]", "-") and _is_single(first)
            if not is_range:
                ranges += first
                continue
            self._position += 1
            last = self._parse_member()
            if not _is_single(last) or last[0][0] < first[0][0]:
                raise self._refuse("a range that is out of order")
            ranges.append((first[0][0], last[0][0]))
        self._position += 1
        return CharacterSet(_invert(tuple(ranges)) if is_inverted else tuple(ranges))

    def _parse_member(self) -> Ranges:
        character = self._take()
        if character == "\\":
            if self._peek() == "b":
                self._position += 1
                return ((0x08, 0x08),)
            return self._parse_escape()
        return ((ord(character), ord(character)),)

    def _parse_escape(self) -> Ranges:
        character = self._take()
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return ranges if character.islower() else _invert(ranges)
        if character in ("x", "u"):
            digits = self._peek(2 if character == "x" else 4)
            try:
                code = int(digits, 16) if digits.isalnum() else -1
            except ValueError:
                code = -1
            if code < 0 or len(digits) != (2 if character == "x" else 4):
                raise self._refuse(f"a \\{character} without its digits")
            self._position += len(digits)
            return ((code, code),)
        character = _CONTROLS.get(character, character)
        if character.isalnum():
            raise self._refuse(f"the escape \\{character}", "leave it out: back references and \\p are not matched")
        return ((ord(character), ord(character)),)


def _is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _invert(ranges: Ranges) -> Ranges:
    """Return the ranges of all other code points."""
    inverted, start = [], 0
    for first, last in sorted(ranges):
        if first > start:
            inverted.append((start, first - 1))
        start = max(start, last + 1)
    return (*inverted, (start, _LAST)) if start <= _LAST else tuple(inverted)
