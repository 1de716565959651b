"""The kinds of value an entity may hold, each checked at the edge.

Text is any Unicode without NUL and without lone surrogates, because some store refuses either. Times carry a zone
and are kept in UTC. Numbers fit 64 bits and are finite. JSON holds only what JSON can hold.
"""

import math
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer, StringConstraints
from pydantic_core import PydanticCustomError

from recollect.clock import EPOCH

ID_LENGTH = 255
_ID = re.compile(r"[^\s\x00-\x1f\x7f/]+")
_JSON_DEPTH = 100


def check_text(value: str) -> str:
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
    """Whether a row can have this id."""
    return len(value) <= ID_LENGTH and bool(_ID.fullmatch(value)) and (value.isascii() or _is_unicode(value))


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_id(value: str) -> str:
    check_text(value)
    if not is_id(value):
        shown = value if len(value) <= 40 else value[:40] + "…"
        raise PydanticCustomError(
            "malformed_id",
            f"id {shown!r} is malformed; use 1 to {ID_LENGTH} characters without spaces, slashes or control characters",
        )
    return value


def check_time(value: datetime) -> datetime:
    if value.tzinfo is None:
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
    if value:
        _walk_json(value, 0)
    return value


def _walk_json(value: Any, depth: int) -> None:
    if depth > _JSON_DEPTH:
        raise PydanticCustomError("json_depth", f"JSON is nested deeper than {_JSON_DEPTH} levels")
    match value:
        case None | bool() | int():
            return
        case str():
            check_text(value)
        case float():
            if not math.isfinite(value):
                raise PydanticCustomError("json_number", f"JSON cannot hold the number {value}")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise PydanticCustomError("json_key", f"JSON keys are text, not {type(key).__name__} ({key!r})")
                check_text(key)
                _walk_json(item, depth + 1)
        case list() | tuple():
            for item in value:
                _walk_json(item, depth + 1)
        case _:
            raise PydanticCustomError("json_value", f"JSON cannot hold a {type(value).__name__} ({value!r:.60})")


MOST_DIMENSIONS = 16_000
_NOT_FINITE = bytes(byte & 0x7C == 0x7C for byte in range(256))
"""For the high byte of a half-precision number, whether all bits of its exponent are set."""


def check_half_vector(vector: bytes, dimensions: int) -> None:
    """Refuse a vector that no embedding model returns: of another length, not finite, or zero."""
    if len(vector) != 2 * dimensions:
        raise PydanticCustomError(
            "vector_length", f"the vector has {len(vector)} bytes; {dimensions} dimensions have {2 * dimensions}"
        )
    if 1 in vector[1::2].translate(_NOT_FINITE):
        raise PydanticCustomError("vector_number", "the vector holds a number that is not finite")
    if not vector[::2].strip(b"\x00") and not vector[1::2].strip(b"\x00\x80"):
        raise PydanticCustomError("vector_zero", "the vector holds only zeros, so it has no direction")


Text = Annotated[str, AfterValidator(check_text)]
Id = Annotated[str, AfterValidator(check_id), Field(max_length=ID_LENGTH)]
Time = Annotated[datetime, AfterValidator(check_time), PlainSerializer(datetime.isoformat, when_used="json")]
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Json = Annotated[Any, AfterValidator(check_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(check_json)]
JsonList = Annotated[list[Any], AfterValidator(check_json)]
Texts = Annotated[list[str], AfterValidator(check_json)]

Name = Annotated[str, StringConstraints(max_length=255), AfterValidator(check_text)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=50), AfterValidator(check_text)]
Word32 = Annotated[str, StringConstraints(min_length=1, max_length=32), AfterValidator(check_text)]
Word64 = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(check_text)]
Word100 = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(check_text)]
HalfVector = Annotated[bytes, "vector"]
Digest = Annotated[bytes, Field(min_length=16, max_length=32)]
