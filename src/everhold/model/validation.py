"""Validate values from callers and explain what is wrong with them."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from everhold.errors import InvalidInput, MalformedId, UnknownField, format_value
from everhold.model.base import Row, make_field_adapter
from everhold.model.fields import check_text

R = TypeVar("R", bound=Row)
_NAME_LENGTH = 60
CLOCK_TOLERANCE = timedelta(minutes=1)  # clocks of two machines differ a little
_SURROGATE_MESSAGE = "text holds a lone surrogate; decode the source with errors='replace'"


def validate_row(row: type[R], values: Mapping[str, Any], also_known: Iterable[str] = ()) -> R:
    """Return a row of these values; raise InvalidInput if they are invalid.

    `also_known` are further argument names that an error about an unknown name may suggest.
    """
    try:
        return row.model_validate(values)
    except ValidationError as error:
        raise explain_errors(error, row.__name__.lower(), [*row.model_fields, *also_known]) from None


def validate_text(value: str, label: str) -> str:
    """Return the text; raise InvalidInput if a store could not hold it."""
    try:
        return check_text(value)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"{label}: {error}") from None


def complete_row(
    row: type[R], caller_values: Mapping[str, Any], own_values: Mapping[str, Any], also_known: Iterable[str] = ()
) -> R:
    """Return a row with the values of a caller, validated field by field, and with `own_values`, which are not
    validated.

    `also_known` are further argument names that an error about an unknown name may suggest.
    """
    checks = _build_field_checks(row)
    factories = _collect_default_factories(row)
    values = {**own_values, **{name: make() for name, make in factories if name not in own_values}}
    for name, value in caller_values.items():
        check = checks.get(name)
        if check is None:
            raise UnknownField(
                f"{row.__name__.lower()} has no field {name!r}",
                value=name,
                remedy=suggest_name(name, [*checks, *also_known]),
            )
        try:
            values[name] = check(value)
        except ValidationError as error:
            raise explain_errors(error, f"{row.__name__.lower()} {name}", checks) from None
    return row.build_unchecked(values)


@cache
def _build_field_checks(row: type[Row]) -> dict[str, Callable[[Any], Any]]:
    fields = row.model_fields.items()
    return {name: make_field_adapter(info).validate_python for name, info in fields}


@cache
def _collect_default_factories(row: type[Row]) -> list[tuple[str, Callable[[], Any]]]:
    """Return the names of the fields whose default is a new list or dictionary, each with the function that makes
    it."""
    factories = {name: info.default_factory for name, info in row.model_fields.items() if info.default_factory}
    return [(name, cast(Callable[[], Any], make)) for name, make in factories.items()]


def explain_errors(error: ValidationError, label: str, known_names: Iterable[str]) -> InvalidInput:
    """Convert a pydantic error into an InvalidInput with fact, value and remedy."""
    faults = error.errors(include_url=False)
    first = faults[0]
    name = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        return UnknownField(f"{label} has no field {name!r}", value=name, remedy=suggest_name(name, known_names))
    parts = [describe_fault(fault, format_value(fault["input"])) for fault in faults]
    facts, remedies = (dict.fromkeys(texts) for texts in zip(*parts, strict=True))
    error_class = MalformedId if first["type"] == "malformed_id" else InvalidInput
    value = None if first["type"] == "missing" else first["input"]
    return error_class(f"{label}: {', and '.join(facts)}", value=value, remedy=", and ".join(remedies))


def describe_fault(fault: Any, shown_input: str) -> tuple[str, str]:
    """Return the fact and the remedy of one fault that pydantic found."""
    name = ".".join(str(step) for step in fault["loc"])
    if fault["type"] == "missing":
        return f"{name} is missing", "pass it"
    message = _SURROGATE_MESSAGE if fault["type"] == "string_unicode" else fault["msg"]
    fact, _, remedy = message.rpartition("; ")
    if fact:  # the message of our own validators has a fact and a remedy
        received = "" if shown_input in fact else f" (got {shown_input})"
        return f"{name}: {fact}{received}" if name else f"{fact}{received}", remedy
    requirement = remedy.removeprefix("Input ")  # "Input should be at least 1"
    subject = "it " if requirement != remedy else ""
    return f"{name or 'it'} is {shown_input}", f"{subject}{requirement[:1].lower()}{requirement[1:]}"


_EXPIRY = {
    "expires_at": "use expires_at, the time when the memory expires",
    "tool_call_id": "messages do not expire, so leave it out",  # a field that only messages have
}

# Maps the name that other libraries use for an argument to our names for it, each with the remedy to show.
_SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "ttl": _EXPIRY,
    "ttl_seconds": _EXPIRY,
    "expires_in": _EXPIRY,
    "limit": {"k": "use k"},
    "k": {"limit": "use limit"},
    "top_k": {"k": "use k", "limit": "use limit"},
    "threshold": {"minimum": "use minimum, the lowest score of a hit"},
    "type": {"kind": "use kind"},
}
_DIMENSIONS = ("organization", "project", "user", "agent", "session")


def suggest_name(name: str, known_names: Iterable[str]) -> str:
    """Return the remedy for an unknown name. It suggests a synonym, the most similar known name, or all known names."""
    names, name = sorted(known_names), name[:_NAME_LENGTH]  # comparing a long name with each known one would take long
    for known_name, remedy in _SYNONYMS.get(name, {}).items():
        if known_name in names:
            return remedy
    similar_names = [known_name for known_name in names if known_name.startswith(name)]
    similar_names = similar_names or get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {similar_names[0]!r}?" if similar_names else f"choose from {', '.join(names)}"


def suggest_argument(name: str, known_names: Iterable[str]) -> str:
    """Return the remedy for an unknown argument of a verb. Users, sessions and so on are named in a scope instead."""
    dimension = name.removesuffix("_id")
    return (
        f"name it in the scope: scope({dimension}=…)" if dimension in _DIMENSIONS else suggest_name(name, known_names)
    )


def check_created_at(created_at: datetime, now: datetime) -> None:
    """Raise InvalidInput if `created_at` is more than CLOCK_TOLERANCE after `now`."""
    if created_at > now + CLOCK_TOLERANCE:
        raise InvalidInput(
            f"created_at {created_at.isoformat()} is in the future",
            value=created_at,
            remedy="pass the time when it was created, or leave it out",
        )


def check_time(value: Any, name: str) -> None:
    """Raise InvalidInput unless the value is a datetime with a time zone."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{name} is {format_value(value)}", value=value, remedy="pass a datetime")
    if value.tzinfo is None:
        remedy = "pass an aware datetime, for example with tzinfo=UTC"
        raise InvalidInput(f"{name} {value.isoformat()} has no zone", remedy=remedy)
