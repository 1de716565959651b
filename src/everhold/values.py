"""Frozen dataclasses that are defined quickly.

`dataclass` compiles a function for each method that it adds. For a short command, this takes a twentieth of the time to
start. A class whose equality, hash and repr are not on a hot path shares those of `Value`. Its `__init__` is compiled
when the first value is made, which most processes never do for most classes:

    @value_class
    class Page(Value):
        ...
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from reprlib import recursive_repr
from typing import Any, ClassVar, TypeVar, dataclass_transform

T = TypeVar("T")


class _FieldsSignature:
    """The signature of a class of values, for `help` and `inspect.signature`."""

    def __get__(self, instance: object, kind: type) -> inspect.Signature:
        signature = inspect.signature(_compile_init(kind))
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Value:
    """Supplies the equality, hash and repr of a frozen dataclass, which equal those of the generated methods."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __signature__: ClassVar[Any] = _FieldsSignature()

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _list_compared(self) == _list_compared(other)

    def __hash__(self) -> int:
        return hash(tuple(_list_compared(self)))

    @recursive_repr()
    def __repr__(self) -> str:
        shown = ", ".join([f"{field.name}={getattr(self, field.name)!r}" for field in _list_fields(self) if field.repr])
        return f"{type(self).__qualname__}({shown})"


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def value_class(kind: type[T]) -> type[T]:
    """Make a class a frozen dataclass. Its base is `Value`."""
    value_type: Any = dataclass(init=False, eq=False, repr=False)(kind)

    def compile_and_call(self: Any, *args: Any, **named: Any) -> None:
        value_type.__init__ = _compile_init(value_type)
        value_type.__init__(self, *args, **named)

    value_type.__init__ = compile_and_call
    return kind


def _compile_init(kind: Any) -> Callable[..., None]:
    """Return the `__init__` that `dataclass` would make. Frozen values are set as `dataclass` sets them."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_ABSENT": MISSING}
    parameters, lines = [], []
    for entry in fields(kind):
        name, source = entry.name, entry.name
        if entry.default_factory is not MISSING:
            scope[f"_make_{name}"] = entry.default_factory
            source = f"_make_{name}() if {name} is _ABSENT else {name}" if entry.init else f"_make_{name}()"
            default = "_ABSENT"
        else:
            scope[f"_default_{name}"] = entry.default
            default = "" if entry.default is MISSING else f"_default_{name}"
        if entry.init:
            parameters.append(f"{name}={default}" if default else name)
        if entry.init or entry.default_factory is not MISSING:  # `__post_init__` sets other fields
            lines.append(f"_set(self, {name!r}, {source})")
    if getattr(kind, "__post_init__", None) is not None:
        lines.append("self.__post_init__()")
    exec("\n ".join([f"def __init__(self, {', '.join(parameters)}):", *lines, "pass"]), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    init.__annotations__ = {entry.name: entry.type for entry in fields(kind) if entry.init} | {"return": None}
    return init


def _list_compared(instance: Any) -> list[Any]:
    return [getattr(instance, field.name) for field in _list_fields(instance) if field.compare]


def _list_fields(instance: Any) -> tuple[Field[Any], ...]:
    return fields(instance)
