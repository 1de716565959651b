"""Checking values from outside, with errors that say what to do."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from recollect.errors import InvalidInput, MalformedId, UnknownField
from recollect.model.base import Row

R = TypeVar("R", bound=Row)
_SHOWN = 60


def checked(row: type[R], values: Mapping[str, Any], also: Iterable[str] = ()) -> R:
    """A row of these values, or one of our errors. `also` are names that a caller may use besides the fields'."""
    try:
        return row.model_validate(values)
    except ValidationError as error:
        raise explained(error, row.__name__.lower(), [*row.model_fields, *also]) from None


def explained(error: ValidationError, what: str, known: Iterable[str]) -> InvalidInput:
    """What pydantic found, as fact, value and remedy."""
    faults = error.errors(include_url=False)
    first = faults[0]
    name = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        return UnknownField(f"{what} has no field {name!r}{nearest(name, known)}")
    if first["type"] == "malformed_id":
        return MalformedId(f"{what}: {first['msg']}")
    text = "; ".join(_fault(fault) for fault in faults)
    return InvalidInput(f"{what}: {text}")


def _fault(fault: Any) -> str:
    name = ".".join(str(step) for step in fault["loc"])
    if fault["type"] == "missing":
        return f"{name} is missing"
    said = f"{name}: {fault['msg']}" if name else fault["msg"]
    return f"{said} (got {shown(fault['input'])})" if fault["loc"] else said


def shown(value: Any) -> str:
    """A value in an error message: short, and with its length where that matters."""
    text = repr(value)
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}… of length {len(value)}" if isinstance(value, str | bytes | list) else f"{text[:_SHOWN]}…"


def nearest(name: str, known: Iterable[str]) -> str:
    """The remedy for a name that does not exist."""
    names = sorted(known)
    close = [one for one in names if one.startswith(name)] or get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from {', '.join(names)}"
