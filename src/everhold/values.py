"""Value: the base of frozen dataclasses that are defined quickly.

`dataclass` compiles a function for each method that it adds. For the classes of a short command that is a twentieth of
its start. A class whose equality, hash and repr are not on a hot path shares those of `Value` instead:

    @dataclass(frozen=True, eq=False, repr=False)
    class Page(Value):
        ...
"""

from dataclasses import Field, fields
from reprlib import recursive_repr
from typing import Any


class Value:
    """Compares, hashes and prints a frozen dataclass as one with methods of its own does."""

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


def _list_compared(value: Any) -> list[Any]:
    return [getattr(value, field.name) for field in _list_fields(value) if field.compare]


def _list_fields(value: Any) -> tuple[Field[Any], ...]:
    return fields(value)
