"""The parts of a prompt in a form that belongs to no provider, and the tokens that each costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from everhold.context.cutting import CHARACTERS_PER_TOKEN, cut_text
from everhold.context.section import Counter
from everhold.schema.codec import encode_json

Role = Literal["system", "user", "assistant", "tool"]

# What providers add around every message and around every call of a tool, rounded up.
TURN_TOKENS = 4
CALL_TOKENS = 16
# The largest image that providers do not shrink costs about this many tokens; a page of a document costs more.
MEDIA_TOKENS = 1_600
# About 2,000 tokens for a page of 64 kilobytes in Base64. Only the provider knows how many a document really has.
_CHARACTERS_PER_DOCUMENT_TOKEN = 32
NO_RETURN = "(the call has no return)"


@dataclass(frozen=True)
class TextPart:
    """A text."""

    text: str


@dataclass(frozen=True)
class MediaPart:
    """An image or a document: a URL, or data in Base64 with its media type."""

    kind: Literal["image", "document"]
    url: str | None = None
    media_type: str | None = None
    data: str | None = None
    name: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class CallPart:
    """A call of a tool; `arguments` is an object, or JSON as text."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class ReturnPart:
    """What a tool returned. `call_id` is None if the message does not say which call it answers."""

    call_id: str | None
    parts: tuple["TextPart | MediaPart", ...]
    is_error: bool = False


@dataclass(frozen=True)
class NativePart:
    """A block that only its own provider understands, such as the thinking of a model."""

    provider: Literal["openai", "anthropic"]
    block: Mapping[str, Any]


Part = TextPart | MediaPart | CallPart | ReturnPart | NativePart


@dataclass(frozen=True)
class PromptTurn:
    """One turn of a prompt: who speaks, and what. `speaker` is the name of a speaker among several.

    `is_recalled` marks the turn that depends on the question: a prompt cache can reuse what stands before it.
    """

    role: Role
    parts: tuple[Part, ...]
    speaker: str | None = None
    message_id: str | None = None
    is_recalled: bool = False

    @property
    def calls(self) -> tuple[CallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, CallPart))

    @property
    def has_tools(self) -> bool:
        return self.role == "tool" or any(isinstance(part, CallPart | ReturnPart) for part in self.parts)


def encode_arguments(arguments: Any) -> str:
    """Return the arguments of a call as JSON."""
    return arguments if isinstance(arguments, str) else encode_json(arguments)


def count_turn(turn: PromptTurn, counter: Counter) -> int:
    """Return the tokens that a turn costs in a prompt."""
    speaker = counter(turn.speaker) + TURN_TOKENS if turn.speaker else 0
    return TURN_TOKENS + speaker + sum(_count_part(part, counter) for part in turn.parts)


def _count_part(part: Part, counter: Counter) -> int:
    match part:
        case TextPart(text):
            return counter(text)
        case MediaPart(kind="image"):
            return MEDIA_TOKENS
        case MediaPart():
            return MEDIA_TOKENS + len(part.data or "") // _CHARACTERS_PER_DOCUMENT_TOKEN
        case CallPart():
            return CALL_TOKENS + counter(part.name) + counter(encode_arguments(part.arguments))
        case ReturnPart():
            return CALL_TOKENS + sum(_count_part(item, counter) for item in part.parts)
        case NativePart():
            return counter(encode_json(dict(part.block)))


def shorten_turn(turn: PromptTurn, room: int, counter: Counter) -> PromptTurn | None:
    """Return the turn with its longest parts cut, so that it costs at most `room` tokens; None if that is impossible.

    A call is never left out, because its return needs it: arguments that are too long become an empty object.
    """
    costs = [_count_part(part, counter) for part in turn.parts]
    left = room - (count_turn(turn, counter) - sum(costs))
    most = find_level(costs, left)
    parts = [
        part if cost <= most else _shorten_part(part, most, counter)
        for part, cost in zip(turn.parts, costs, strict=True)
    ]
    shorter = replace(turn, parts=tuple(part for part in parts if part is not None))
    if not shorter.parts or count_turn(shorter, counter) > room:
        return None
    return shorter


def _shorten_part(part: Part, room: int, counter: Counter) -> Part | None:
    match part:
        case TextPart(text):
            cut = cut_text(text[: room * CHARACTERS_PER_TOKEN], lambda piece: counter(piece) <= room)
            return TextPart(cut) if cut else None
        case CallPart():
            return replace(part, arguments={})
        case ReturnPart(parts=parts):
            costs = [_count_part(item, counter) for item in parts]
            most = find_level(costs, room - CALL_TOKENS)
            shorter = [
                item if cost <= most else _shorten_part(item, most, counter)
                for item, cost in zip(parts, costs, strict=True)
            ]
            return replace(part, parts=tuple(item for item in shorter if isinstance(item, TextPart | MediaPart)))
        case MediaPart():
            return TextPart(f"[{part.kind} left out]")
        case NativePart():
            return None


def find_level(costs: list[int], room: int) -> int:
    """Return the highest number to which all larger costs must shrink so that the sum is at most `room`."""
    left = max(0, room)
    for place, cost in enumerate(sorted(costs)):
        share = left // (len(costs) - place)
        if cost > share:
            return share
        left -= cost
    return max(costs, default=0)
