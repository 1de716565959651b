"""The parts of a prompt in a form that is independent of providers, and the tokens that each part costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from everhold.context.cutting import CHARACTERS_PER_TOKEN, cut_text
from everhold.context.section import Counter
from everhold.schema.codec import encode_json

Role = Literal["system", "user", "assistant", "tool"]

# The tokens that providers add to every message and to every call of a tool, rounded up.
TURN_TOKENS = 4
CALL_TOKENS = 16
# The largest image that providers do not shrink costs about this many tokens; a page of a document costs more.
MEDIA_TOKENS = 1_600
# An estimate: a page of 64 kilobytes in Base64 costs about 2,000 tokens. Only the provider can count the tokens of a
# document.
_CHARACTERS_PER_DOCUMENT_TOKEN = 32
NO_RETURN = "(the call has no return)"


@dataclass(frozen=True)
class TextPart:
    """A text in a prompt."""

    text: str


@dataclass(frozen=True)
class MediaPart:
    """An image or a document, either by its URL or as Base64 data with its media type."""

    kind: Literal["image", "document"]
    url: str | None = None
    media_type: str | None = None
    data: str | None = None
    name: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class CallPart:
    """A call of a tool. `arguments` is an object, or a string with its JSON."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class ReturnPart:
    """The return of a tool. `call_id` is None if the message does not name the call that it answers."""

    call_id: str | None
    parts: tuple["TextPart | MediaPart", ...]
    is_error: bool = False


@dataclass(frozen=True)
class NativePart:
    """A block in the format of one provider, such as the thinking of a model."""

    provider: Literal["openai", "anthropic"]
    block: Mapping[str, Any]


Part = TextPart | MediaPart | CallPart | ReturnPart | NativePart


@dataclass(frozen=True)
class PromptTurn:
    """One turn of a prompt: the role and what it says. `speaker` is the name of the speaker, if there may be several.

    `is_recalled` marks the turn that depends on the question. A prompt cache can reuse what comes before it.
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

    A call is never removed, because its return needs it. Arguments that are too long become an empty object.
    """
    costs = [_count_part(part, counter) for part in turn.parts]
    parts_room = room - (count_turn(turn, counter) - sum(costs))
    level = find_level(costs, parts_room)
    parts = [
        part if cost <= level else _shorten_part(part, level, counter)
        for part, cost in zip(turn.parts, costs, strict=True)
    ]
    shorter = replace(turn, parts=tuple(part for part in parts if part is not None))
    if not shorter.parts or count_turn(shorter, counter) > room:
        return None
    return shorter


def _shorten_part(part: Part, room: int, counter: Counter) -> Part | None:
    """Return a part shortened to about `room` tokens; None if nothing of it is left."""
    match part:
        case TextPart(text):
            beginning = cut_text(text[: room * CHARACTERS_PER_TOKEN], lambda piece: counter(piece) <= room)
            return TextPart(beginning) if beginning else None
        case CallPart():
            return replace(part, arguments={})
        case ReturnPart(parts=parts):
            costs = [_count_part(item, counter) for item in parts]
            level = find_level(costs, room - CALL_TOKENS)
            shorter = [
                item if cost <= level else _shorten_part(item, level, counter)
                for item, cost in zip(parts, costs, strict=True)
            ]
            return replace(part, parts=tuple(item for item in shorter if isinstance(item, TextPart | MediaPart)))
        case MediaPart():
            return TextPart(f"[{part.kind} left out]")
        case NativePart():
            return None


def find_level(costs: list[int], room: int) -> int:
    """Return the highest level for which the costs, each cut to at most this level, sum to at most `room`."""
    room_left = max(0, room)
    for index, cost in enumerate(sorted(costs)):
        share = room_left // (len(costs) - index)
        if cost > share:
            return share
        room_left -= cost
    return max(costs, default=0)
