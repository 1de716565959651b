"""Values as errors keep and show them: short, and never able to raise."""

import reprlib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import PurePath
from types import NoneType
from typing import Any

_SHOWN = 60  # characters
_CONTAINERS = (list, tuple, set, frozenset, dict)
_SHOWN_BITS = 128  # Python takes long to write a huge integer, and refuses beyond 4,300 digits


def shorten_value(value: Any) -> Any:
    """Convert a value for an error: to a short, plain value that can be pickled and written as JSON."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _SHOWN_BITS else format_value(value)
    if isinstance(value, str):
        return value[:_SHOWN] if len(value) <= _SHOWN else f"{value[:_SHOWN]}… of length {len(value)}"
    return format_value(value)


def format_value(value: Any) -> str:
    """Return a value as an error message shows it: short, with its length, and safe for any object."""
    if isinstance(value, str | bytes):
        text = repr(value[: _SHOWN + 1])  # a slice is plain text, even of a subclass
        return text if len(text) <= _SHOWN and len(value) <= _SHOWN else f"{text[:_SHOWN]}… of length {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool):
        return (
            int.__repr__(value) if value.bit_length() <= _SHOWN_BITS else f"a whole number of {value.bit_length()} bits"
        )
    if type(value) in _CONTAINERS:  # a subclass has a repr of its own, which may be long, or raise
        text = _outline(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… of length {len(value)}"
    # The repr of any other object may be long, or raise.
    show_value = next((show for kind, show in _PLAIN.items() if isinstance(value, kind)), None)
    return show_value(value) if show_value else f"a {type(value).__name__}"


_PLAIN: Mapping[type, Callable[[Any], str]] = {
    bool: bool.__repr__,
    NoneType: repr,
    float: float.__repr__,
    datetime: datetime.isoformat,
    PurePath: lambda path: format_value(str(path)),
}


class _Outline(reprlib.Repr):
    """Shows the beginning of lists and objects, two levels deep, with every value as `format_value` returns it."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2

    def repr1(self, x: Any, level: int) -> str:
        return super().repr1(x, level) if type(x) in _CONTAINERS else format_value(x)


_outline = _Outline().repr
