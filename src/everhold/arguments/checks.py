"""The checks of arguments, their limits, and the annotations that use them."""

import io
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic_core import PydanticCustomError

from everhold.arguments.protocols import require_protocol
from everhold.errors import InvalidInput, MalformedId, format_value
from everhold.model.base import Row
from everhold.model.fields import (
    ID_LENGTH,
    MAX_INTEGER,
    MIN_INTEGER,
    check_id,
    check_text,
    walk_json,
)
from everhold.model.fields import check_time as check_field_time
from everhold.values import Value, value_class

# Takes a value and the argument's name; returns the value to use, or raises InvalidInput.
Check = Callable[[Any, str], Any]

QUESTION_LENGTH = 32_000
LINE_LENGTH = 10_000
PATH_LENGTH = 4_000
# The longest file name. Systems allow 255 bytes; the temporary name of a file being written is longer.
NAME_BYTES = 200
CURSOR_LENGTH = 2_000
PASSWORD_LENGTH = 1_024
SEQUENCE_LENGTH = 10_000
MAX_PAGE_SIZE = 10_000
MAX_HITS = 1_000
MAX_BUDGET = 10_000_000
MAX_WALK_DEPTH = 10
MAX_NEIGHBOURS = 100
MAX_RESULTS = 100
MAX_WORKERS = 1_024


def make_refusal(name: str, value: Any, remedy: str) -> InvalidInput:
    """Return the error for an argument: its name, its value in short, and what to pass."""
    return InvalidInput(f"{name} is {format_value(value)}", value=value, remedy=f"pass {remedy}")


def _make_text_check(max_length: int | None, remedy: str = "text", *, secret: bool = False) -> Check:
    """Make a check of text with at most `max_length` characters. A secret is never quoted."""

    def check(value: Any, name: str) -> str:
        if (
            type(value) is str
            and value.isascii()
            and "\x00" not in value
            and (max_length is None or len(value) <= max_length)
        ):
            return value
        if not isinstance(value, str):
            raise (
                make_refusal(name, value, remedy)
                if not secret
                else InvalidInput(f"{name} is not text", remedy=f"pass {remedy}")
            )
        if max_length is not None and len(value) > max_length:
            raise InvalidInput(
                f"{name} has {len(value):,} characters", value=len(value), remedy=f"pass at most {max_length:,}"
            )
        try:
            check_text(value)
        except PydanticCustomError as error:
            raise InvalidInput.from_sentence(f"{name}: {error}") from None
        return value if type(value) is str else str.__str__(value)  # a subclass may behave differently later

    return check


check_line = _make_text_check(LINE_LENGTH)


def _check_id(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise make_refusal(name, value, "an id as text")
    try:
        check_id(value)
    except PydanticCustomError as error:
        raise MalformedId.from_sentence(f"{name}: {error}", value) from None
    return value if type(value) is str else str.__str__(value)


def _make_name_check(remedy: str, remedy_for_length: str) -> Check:
    """Make a check of an id or of the caller's own name for a row; a name may hold spaces."""

    def check(value: Any, name: str) -> str:
        if isinstance(value, Row):
            type_name = type(value).__name__
            raise InvalidInput(f"{name} is a {type_name}, not an id", remedy=f"pass {type_name.lower()}.id")
        if not isinstance(value, str):
            raise make_refusal(name, value, remedy)
        if not 1 <= len(value) <= ID_LENGTH:
            raise MalformedId(
                f"{name} has {len(value):,} characters",
                value=len(value),
                remedy=f"pass {remedy_for_length} of 1 to {ID_LENGTH}",
            )
        return typing.cast(str, check_line(value, name))

    return check


def make_integer_check(minimum: int, maximum: int, remedy: str | None = None) -> Check:
    expected = remedy or f"a whole number from {minimum} to {maximum}"

    def check(value: Any, name: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise make_refusal(name, value, expected)
        return value if type(value) is int else int.__int__(value)

    return check


def check_number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise make_refusal(name, value, "a number")
    if isinstance(value, int):
        return typing.cast(float, check_integer(value, name))
    if not math.isfinite(value):
        raise make_refusal(name, value, "a finite number")
    return value if type(value) is float else float.__float__(value)


def _check_minimum(value: Any, name: str) -> float:
    number = check_number(value, name)
    if not -1 <= number <= 1:  # a cosine, the score of the recipe "meaning", may be negative
        raise make_refusal(name, value, "a score from 0 to 1; no hit has a higher one")
    return number


check_integer = make_integer_check(MIN_INTEGER, MAX_INTEGER, "a whole number of at most 64 bits")


def check_flag(value: Any, name: str) -> bool:
    if value is not True and value is not False:
        raise make_refusal(name, value, "True or False")
    return value


def check_time(value: Any, name: str) -> datetime:
    if not isinstance(value, datetime):
        raise make_refusal(name, value, "a datetime")
    try:
        return check_field_time(value)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"{name}: {error}") from None


def make_choice_check(*choices: str) -> Check:
    """Make a check that a value is one of some words."""

    def check(value: Any, name: str) -> Any:
        if value not in choices:
            raise make_refusal(name, value, " or ".join(map(repr, choices)))
        return value

    return check


def check_callable(value: Any, name: str) -> Any:
    if not callable(value):
        raise make_refusal(name, value, "a function")
    return value


def check_path(value: Any, name: str) -> Path:
    if not isinstance(value, PurePath):
        raise make_refusal(name, value, "a path")
    _check_path_text(str(value), name)
    return Path(value)


_check_address = _make_text_check(PATH_LENGTH, "a path as text")


def _check_path_text(value: Any, name: str) -> str:
    """Check a path or a store's address. Operating systems refuse long file names; names in URLs are not checked."""
    address: str = _check_address(value, name)
    longest_name = max(address.split("/"), key=len) if "://" not in address else ""
    if len(longest_name.encode()) > NAME_BYTES:
        raise InvalidInput(
            f"{name} holds a name of {len(longest_name.encode())} bytes", remedy=f"use at most {NAME_BYTES} for each"
        )
    return address


def check_stream(value: Any, name: str) -> Any:
    if isinstance(value, io.RawIOBase | io.BufferedIOBase) or not callable(getattr(value, "write", None)):
        raise make_refusal(name, value, "a path or an open text file")
    return value


def check_nested(value: Any, name: str) -> Any:
    """Check how deep and how large a value is. The verb itself decides what its leaves may be."""
    if isinstance(value, Mapping) and not isinstance(value, dict):
        value = dict(value)
    try:
        walk_json(value, _check_leaf)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"{name}: {error}") from None
    return value


def _check_leaf(value: Any) -> None:
    """Check a value that JSON cannot hold but a filter may: a set of plain values, or a time."""
    if isinstance(value, set | frozenset):
        if len(value) > SEQUENCE_LENGTH:
            raise PydanticCustomError("set_size", f"a set has {len(value)} values; use at most {SEQUENCE_LENGTH}")
        walk_json([item for item in value if not isinstance(item, frozenset)], _check_leaf)
    elif isinstance(value, datetime):
        check_field_time(value)


def check_mapping(value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise make_refusal(name, value, "a dictionary")
    return check_nested(value, name)


def check_items(value: Any, name: str) -> Any:
    """Check an iterable. Text and dictionaries are refused: iterating them gives letters and keys, not items."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        received = "text" if isinstance(value, str | bytes | bytearray) else format_value(value)
        raise InvalidInput(f"{name} is {received}", remedy="pass a list, even for a single item")
    return value


def check_list(value: Any, name: str) -> list[Any]:
    """Check a list of anything as one value, so that the limits hold for the whole list."""
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence | Set):
        raise make_refusal(name, value, "a list")
    return typing.cast(list[Any], check_nested(list(value), name))


def make_sequence_check(check_item: Check) -> Check:
    """Make a check of a list whose items pass `check_item`."""

    def check(value: Any, name: str) -> list[Any]:
        if isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence | Set):
            raise make_refusal(name, value, "a list")
        if len(value) > SEQUENCE_LENGTH:
            raise InvalidInput(
                f"{name} has {len(value):,} items", value=len(value), remedy=f"pass at most {SEQUENCE_LENGTH:,} at once"
            )
        return [check_item(item, name) for item in value]

    return check


def make_instance_check(kind: type) -> Check:
    """Make a check that a value is an instance of a class."""

    def check(value: Any, name: str) -> Any:
        if not isinstance(value, kind):
            raise make_refusal(name, value, f"a {kind.__name__}")
        return value

    return check


def make_protocol_check(protocol: Any) -> Check:
    """Make a check that an object implements a protocol."""

    def check(value: Any, name: str) -> Any:
        require_protocol(value, protocol, name)
        return value

    return check


def _check_content(value: Any, name: str) -> bytes:
    """Check the content of a file: bytes, or text, which becomes UTF-8."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise make_refusal(name, value, "text or bytes")
    try:
        return str.encode(value)
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{name} holds a lone surrogate at position {error.start}", remedy="pass bytes, or text without it"
        ) from None


@value_class
class Checked(Value):
    """The check that an annotation carries: `Annotated[str, Checked(…)]`."""

    check: Check


Identifier = Annotated[str, Checked(_check_id)]
MemoryId = Annotated[str, Checked(_make_name_check("a memory's id as text", "an id or key"))]
BlockName = Annotated[str, Checked(_make_name_check("a block's id or label as text", "an id or label"))]
Question = Annotated[str, Checked(_make_text_check(QUESTION_LENGTH, "a question as text"))]
# A text to store. The setting text_bytes limits it.
Body = Annotated[str, Checked(_make_text_check(None))]
JobName = Annotated[str, Checked(_make_text_check(ID_LENGTH, "the name of a maintenance job"))]
Cursor = Annotated[str, Checked(_make_text_check(CURSOR_LENGTH, "the cursor of the previous page"))]
DatabaseUrl = Annotated[str, Checked(_make_text_check(PATH_LENGTH, "the URL of a database", secret=True))]
Password = Annotated[str, Checked(_make_text_check(PASSWORD_LENGTH, secret=True))]
PathText = Annotated[str, Checked(_check_path_text)]
# A path inside a workspace. The workspace checks its names.
FilePath = Annotated[str, Checked(_make_text_check(PATH_LENGTH, "a relative path as text"))]
FileContent = Annotated[str | bytes, Checked(_check_content)]
FileKind = Annotated[
    Literal["document", "artifact", "snapshot"], Checked(make_choice_check("document", "artifact", "snapshot"))
]
FileLimit = Annotated[int, Checked(make_integer_check(0, MAX_INTEGER, "a number of bytes or files"))]
PageSize = Annotated[
    int, Checked(make_integer_check(1, MAX_PAGE_SIZE, f"1 to {MAX_PAGE_SIZE:,}, and the cursor for more"))
]
# The longest list that is returned where there is no cursor for more.
ListLength = Annotated[int, Checked(make_integer_check(1, MAX_PAGE_SIZE, f"1 to {MAX_PAGE_SIZE:,}"))]
LineNumber = Annotated[int, Checked(make_integer_check(0, MAX_INTEGER, "the number of a line, from 1"))]
EventNumber = Annotated[
    int, Checked(make_integer_check(0, MAX_INTEGER, "the number of the last event that was handled, or 0"))
]
# The number of a reading that an answer offers.
ChoiceNumber = Annotated[int, Checked(make_integer_check(1, 9, "the number of one of the answer's choices"))]
HitCount = Annotated[int, Checked(make_integer_check(1, MAX_HITS, f"1 to {MAX_HITS}, and the cursor for more"))]
NeighbourCount = Annotated[int, Checked(make_integer_check(0, MAX_NEIGHBOURS))]
ResultCount = Annotated[int, Checked(make_integer_check(0, MAX_RESULTS))]
CycleNumber = Annotated[int, Checked(make_integer_check(0, MAX_INTEGER, "the number of a cycle"))]
StatusOfRun = Annotated[
    Literal["running", "paused", "succeeded", "failed", "cancelled"],
    Checked(make_choice_check("running", "paused", "succeeded", "failed", "cancelled")),
]
MinimumScore = Annotated[float, Checked(_check_minimum)]
Only = Annotated[Literal["session"], Checked(make_choice_check("session"))]
WindowStrategy = Annotated[
    Literal["adaptive", "truncate", "summarise"], Checked(make_choice_check("adaptive", "truncate", "summarise"))
]
Budget = Annotated[int, Checked(make_integer_check(1, MAX_BUDGET, f"1 to {MAX_BUDGET} tokens, such as 1000"))]
WalkDepth = Annotated[int, Checked(make_integer_check(1, MAX_WALK_DEPTH))]
Numbers = Sequence[float] | NDArray[Any]
# A vector. The verb checks it, because only the verb knows its model.
QueryVector = Annotated[Numbers, Checked(lambda value, _: value)]
# A vector, or vectors by the names of their models.
MemoryVector = Annotated[Numbers | Mapping[str, Numbers], Checked(lambda value, _: value)]
check_workers = make_integer_check(1, MAX_WORKERS)
