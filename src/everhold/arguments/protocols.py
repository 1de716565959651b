"""Refuse an object that does not implement a protocol, when it is passed rather than when it is first used."""

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from everhold.errors import InvalidInput, format_value

_MISSING = object()


def require_protocol(value: Any, protocol: type, name: str) -> None:
    """Raise InvalidInput unless an object has every method of a protocol, with its parameters, and every property.

    `name` is what the object was passed as. Types are not checked.
    """
    faults = list(_find_faults(value, protocol))
    if faults:
        raise InvalidInput(
            f"{name} is {format_value(value)}, which has {', and '.join(faults)}",
            value=value,
            remedy=f"implement {protocol.__module__}.{protocol.__name__}",
        )


def _find_faults(value: Any, protocol: type) -> Iterator[str]:
    for member_name, member in _list_members(protocol):
        if isinstance(member, FunctionType):
            method = getattr(value, member_name, None)
            if not callable(method):
                yield f"no {member_name}()"
            elif not _can_take(method, member):
                yield f"a {member_name}() that does not take {_outline_parameters(member)}"
        elif not _has_attribute(value, member_name):
            yield f"no {member_name}"


def _has_attribute(value: Any, name: str) -> bool:
    """Return whether an object has an attribute, without reading a property, which may be slow or fail."""
    if inspect.getattr_static(value, name, _MISSING) is not _MISSING:
        return True
    return getattr(value, name, _MISSING) is not _MISSING  # an object that delegates to another has no static attribute


def _list_members(protocol: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a protocol and of the protocols that it extends."""
    for kind in protocol.__mro__:
        if getattr(kind, "_is_protocol", False):
            for name, member in vars(kind).items():
                if not name.startswith("_") and isinstance(member, FunctionType | property):
                    yield name, member


def _can_take(method: Callable[..., Any], expected: FunctionType) -> bool:
    """Return whether a method can be called like a protocol's: with all parameters, and without the optional ones."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # written in C, without a signature
        return True
    parameters = list(inspect.signature(expected).parameters.values())[1:]
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    return _can_bind(signature, parameters) and _can_bind(signature, required)


def _can_bind(signature: inspect.Signature, parameters: list[inspect.Parameter]) -> bool:
    positional = [None for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    named = {parameter.name: None for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    try:
        signature.bind(*positional, **named)
    except TypeError:
        return False
    return True


def _outline_parameters(method: FunctionType) -> str:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    without_types = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    return str(inspect.Signature(without_types))
