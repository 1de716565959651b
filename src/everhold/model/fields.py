"""The types of an entity's fields, each with its validation.

Text is any Unicode without NUL and without lone surrogates, because some stores refuse them. Times need a time zone
and are stored in UTC. Numbers fit 64 bits and are finite. JSON values are limited in depth and size. Text, numbers and
booleans are never converted: "5" is not a number, and bytes are not text.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, PlainSerializer, Strict, StringConstraints
from pydantic_core import PydanticCustomError

from everhold.clock import EPOCH

ID_LENGTH = 255


class JsonLimits(NamedTuple):
    """The limits of one JSON field."""

    depth: int
    """The maximum nesting of lists and objects. It is limited because parsers and databases use recursion."""
    values: int
    """The maximum number of values, including those inside lists and objects."""
    characters: int
    """The maximum number of characters of all texts and keys together."""


JSON_LIMITS = JsonLimits(depth=64, values=100_000, characters=4_000_000)
# The limits of JSON that the engine itself writes. They are higher, because it contains rows with JSON fields and long
# lists of ids.
SNAPSHOT_LIMITS = JsonLimits(depth=72, values=10_000_000, characters=400_000_000)
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
_LISTS = (list, tuple)


def check_text(value: str) -> str:
    """Return the text; raise PydanticCustomError if it has a NUL or a lone surrogate."""
    if "\x00" in value:
        position = value.index("\x00")
        raise PydanticCustomError("nul", f"text holds a NUL byte at position {position}; remove it")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise PydanticCustomError(
                "surrogate",
                f"text holds a lone surrogate (U+{ord(value[error.start]):04X}) at position {error.start}; "
                "decode the source with errors='replace'",
            ) from None
    return value


def is_id(value: str) -> bool:
    """Return whether a row can have this id: 1 to 255 printable characters, without a space at either end.

    Letters of any script, digits, signs, emoji and the plain space are printable. Line breaks, other blanks, control
    and format characters, surrogates and unassigned code points are not: in a log or a prompt they are invisible or
    look like another character.

    Ids are not normalised: an "é" of one code point and an "é" of two code points make different ids. If ids were
    normalised, a caller could not find them in its own tables.
    """
    return 0 < len(value) <= ID_LENGTH and value.isprintable() and value[0] != " " != value[-1]


def check_id(value: str) -> str:
    check_text(value)
    if not is_id(value):
        shown_id = value if len(value) <= 40 else value[:40] + "…"
        raise PydanticCustomError(
            "malformed_id",
            f"id {shown_id!r} is malformed; use 1 to {ID_LENGTH} printable characters without a blank at either end",
        )
    return value


def check_time(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise PydanticCustomError(
            "naive_time", f"time {value.isoformat()} has no zone; pass an aware datetime, for example with tzinfo=UTC"
        )
    if value.tzinfo is UTC:
        return value
    try:
        return (EPOCH + (value - EPOCH)).replace(fold=0)
    except OverflowError:
        raise PydanticCustomError("time_range", f"time {value.isoformat()} is outside years 1 to 9999 in UTC") from None


def check_json(value: Any) -> Any:
    """Return `value` if it is JSON within JSON_LIMITS; raise PydanticCustomError otherwise."""
    if value or isinstance(value, float):
        walk_json(value, _refuse_leaf)
    return value


def check_snapshot(value: Any) -> Any:
    """Return `value` if it is JSON within SNAPSHOT_LIMITS; raise PydanticCustomError otherwise."""
    if value:
        walk_json(value, _refuse_leaf, SNAPSHOT_LIMITS)
    return value


MAX_DIMENSIONS = 16_000
# Maps the high byte of a float16 to 1 if all bits of its exponent are set: the number is infinite or NaN.
_NOT_FINITE = bytes(byte & 0x7C == 0x7C for byte in range(256))


def check_half_vector(vector: bytes, dimensions: int) -> None:
    """Raise PydanticCustomError if a float16 vector has a wrong length, a number that is not finite, or only zeros."""
    if len(vector) != 2 * dimensions:
        raise PydanticCustomError(
            "vector_length", f"the vector has {len(vector)} bytes; {dimensions} dimensions need {2 * dimensions}"
        )
    if 1 in vector[1::2].translate(_NOT_FINITE):
        raise PydanticCustomError("vector_number", "the vector holds a number that is not finite")
    # Every second byte is the high byte of a number (little-endian), and its first bit is the sign. So 0x80 is minus
    # zero.
    if not vector[::2].strip(b"\x00") and not vector[1::2].strip(b"\x00\x80"):
        raise PydanticCustomError("vector_zero", "the vector is zero")


def walk_json(value: Any, check_leaf: Callable[[Any], None], limits: JsonLimits = JSON_LIMITS) -> None:
    """Check a JSON value without recursion. `check_leaf` is called with each value inside it that is not JSON.

    Raise PydanticCustomError if the value is too deep or too large, or holds a text, a key or a number that no store
    can hold.
    """
    pending: list[tuple[Any, int]] = [(value, 0)]
    values, characters = 0, 0
    while pending:
        item, depth = pending.pop()
        values += 1
        if isinstance(item, str):
            check_text(item)
            characters += len(item)
        elif isinstance(item, dict):
            characters += _count_key_characters(item)
            pending += [(inner, depth + 1) for inner in item.values()]
        elif isinstance(item, _LISTS):
            pending += [(inner, depth + 1) for inner in item]
        elif item is not None and item is not True and item is not False:
            _check_scalar(item, check_leaf)
        # Waiting values count too, so that a value that contains itself is refused here.
        if depth > limits.depth or values + len(pending) > limits.values or characters > limits.characters:
            raise _make_size_error(limits, depth, values + len(pending))


def _count_key_characters(item: dict[Any, Any]) -> int:
    count = 0
    for key in item:
        if not isinstance(key, str):
            raise PydanticCustomError("json_key", f"JSON keys are text, not {type(key).__name__}; use text keys")
        count += len(check_text(key))
    return count


def _check_scalar(item: Any, check_leaf: Callable[[Any], None]) -> None:
    if isinstance(item, int):
        if not MIN_INTEGER <= item <= MAX_INTEGER:
            bits = item.bit_length()
            raise PydanticCustomError("json_number", f"a whole number has {bits} bits; use at most 64, or text")
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise PydanticCustomError("json_number", f"JSON cannot hold the number {item}; leave it out or use text")
    else:
        check_leaf(item)


def _refuse_leaf(item: Any) -> None:
    name = type(item).__name__
    raise PydanticCustomError(
        "decode_json", f"JSON cannot hold a value of type {name}; use text, numbers, lists and objects"
    )


def _make_size_error(limits: JsonLimits, depth: int, values: int) -> PydanticCustomError:
    if depth > limits.depth:
        return PydanticCustomError("json_depth", f"JSON is nested deeper than {limits.depth} levels; flatten it")
    if values > limits.values:
        return PydanticCustomError("json_size", f"JSON holds more than {limits.values:,} values; split it")
    return PydanticCustomError("json_size", f"JSON holds more than {limits.characters:,} characters; split it")


Text = Annotated[str, Strict(), AfterValidator(check_text)]
Id = Annotated[str, Strict(), AfterValidator(check_id), Field(max_length=ID_LENGTH)]
Time = Annotated[datetime, AfterValidator(check_time), PlainSerializer(datetime.isoformat, when_used="json")]
Flag = Annotated[bool, Strict()]
Integer = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Json = Annotated[Any, AfterValidator(check_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(check_json)]
JsonSnapshot = Annotated[dict[str, Any], AfterValidator(check_snapshot)]
JsonList = Annotated[list[Any], AfterValidator(check_json)]
JsonParts = Annotated[list[Any] | dict[str, Any], AfterValidator(check_json)]
Texts = Annotated[list[str], AfterValidator(check_json)]

Name = Annotated[str, StringConstraints(strict=True, max_length=255), AfterValidator(check_text)]
Label = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=50), AfterValidator(check_text)]
Word32 = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=32), AfterValidator(check_text)]
Word64 = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=64), AfterValidator(check_text)]
Word100 = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=100), AfterValidator(check_text)]
HalfVector = Annotated[bytes, "vector"]
Digest = Annotated[bytes, Field(min_length=16, max_length=32)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]


def check_timezone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise PydanticCustomError(
            "timezone", f"no time zone {value!r}; use an IANA name such as 'Asia/Bangkok' or 'UTC'"
        ) from None
    return value


Timezone = Annotated[str, StringConstraints(max_length=100), AfterValidator(check_timezone)]
