"""Checking values from outside, with errors that say what to do."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from everhold.errors import InvalidInput, MalformedId, UnknownField, shown
from everhold.model.base import Row, make_field_adapter
from everhold.model.fields import check_text

R = TypeVar("R", bound=Row)
_SHOWN = 60
CLOCK_TOLERANCE = timedelta(minutes=1)
_SURROGATE = "text holds a lone surrogate; decode the source with errors='replace'"


def checked(row: type[R], values: Mapping[str, Any], also: Iterable[str] = ()) -> R:
    """A row of these values, or one of our errors. `also` are names that a caller may use besides the fields'."""
    try:
        return row.model_validate(values)
    except ValidationError as error:
        raise explained(error, row.__name__.lower(), [*row.model_fields, *also]) from None


def checked_text(value: str, what: str) -> str:
    """Text that every store can hold, or one of our errors."""
    try:
        return check_text(value)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"{what}: {error}") from None


def completed(row: type[R], given: Mapping[str, Any], own: Mapping[str, Any], also: Iterable[str] = ()) -> R:
    """A row of what a caller gave, which is checked field by field, and of our own values, which need no check."""
    checks = _field_checks(row)
    values = {**own, **{name: make() for name, make in _factories(row) if name not in own}}
    for name, value in given.items():
        check = checks.get(name)
        if check is None:
            raise UnknownField(
                f"{row.__name__.lower()} has no field {name!r}", value=name, remedy=nearest(name, [*checks, *also])
            )
        try:
            values[name] = check(value)
        except ValidationError as error:
            raise explained(error, f"{row.__name__.lower()} {name}", checks) from None
    return row.trusted(values)


@cache
def _field_checks(row: type[Row]) -> dict[str, Callable[[Any], Any]]:
    fields = row.model_fields.items()
    return {name: make_field_adapter(info).validate_python for name, info in fields}


@cache
def _factories(row: type[Row]) -> list[tuple[str, Callable[[], Any]]]:
    """The fields whose absence means a new list or a new dictionary."""
    made = {name: info.default_factory for name, info in row.model_fields.items() if info.default_factory}
    return [(name, cast(Callable[[], Any], make)) for name, make in made.items()]


def explained(error: ValidationError, what: str, known: Iterable[str]) -> InvalidInput:
    """What pydantic found, as fact, value and remedy."""
    faults = error.errors(include_url=False)
    first = faults[0]
    name = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        return UnknownField(f"{what} has no field {name!r}", value=name, remedy=nearest(name, known))
    parts = [describe_fault(fault, shown(fault["input"])) for fault in faults]
    facts, remedies = (dict.fromkeys(texts) for texts in zip(*parts, strict=True))
    kind = MalformedId if first["type"] == "malformed_id" else InvalidInput
    value = None if first["type"] == "missing" else first["input"]
    return kind(f"{what}: {', and '.join(facts)}", value=value, remedy=", and ".join(remedies))


def describe_fault(fault: Any, shown_input: str) -> tuple[str, str]:
    """Return the fact and the remedy of one fault that pydantic found."""
    name = ".".join(str(step) for step in fault["loc"])
    if fault["type"] == "missing":
        return f"{name} is missing", "pass it"
    message = _SURROGATE if fault["type"] == "string_unicode" else fault["msg"]
    fact, _, remedy = message.rpartition("; ")
    if fact:  # one of our own validators, which state both
        got = "" if shown_input in fact else f" (got {shown_input})"
        return f"{name}: {fact}{got}" if name else f"{fact}{got}", remedy
    requirement = remedy.removeprefix("Input ")  # "Input should be at least 1"
    subject = "it " if requirement != remedy else ""
    return f"{name or 'it'} is {shown_input}", f"{subject}{requirement[:1].lower()}{requirement[1:]}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The remedy for a name that does not exist."""
    names, name = sorted(known), name[:_SHOWN]  # comparing a long name with each known one would take long
    close = [one for one in names if one.startswith(name)] or get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(names)}"


def check_created_at(created_at: datetime, now: datetime) -> None:
    """InvalidInput if a row is said to be made later than now. Clocks of two machines may differ a little."""
    if created_at > now + CLOCK_TOLERANCE:
        raise InvalidInput(
            f"created_at {created_at.isoformat()} is in the future",
            value=created_at,
            remedy="pass when it was made, or leave it out",
        )


def check_time(value: Any, name: str) -> None:
    """InvalidInput unless it is a moment."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{name} is {shown(value)}", value=value, remedy="pass a datetime")
    if value.tzinfo is None:
        remedy = "pass an aware datetime, for example with tzinfo=UTC"
        raise InvalidInput(f"{name} {value.isoformat()} has no zone", remedy=remedy)
