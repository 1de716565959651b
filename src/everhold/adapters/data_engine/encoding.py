"""Values of a result as JSON and back. The process that ran the query is not trusted, so nothing is unpickled."""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

_PLAIN: Final = (bool, int, str)


def encode_value(value: Any) -> Any:
    """Return a value as JSON has it. A type that JSON lacks becomes an object with one key, which names the type."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    for kind, name, write in _WRITERS:
        if isinstance(value, kind):
            return {name: write(value)}
    return str(value)


def decode_value(value: Any) -> Any:
    """Return the value that `encode_value` wrote. Raise ValueError, KeyError or TypeError for anything else."""
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise TypeError("a list without its type")
        return value
    [(name, content)] = value.items()
    return _READERS[name](content)


# A datetime is a date, so it comes first.
_WRITERS: Final[tuple[tuple[Any, str, Callable[[Any], Any]], ...]] = (
    (Decimal, "decimal", str),
    (datetime, "timestamp", datetime.isoformat),
    (date, "date", date.isoformat),
    (time, "time", time.isoformat),
    (timedelta, "interval", lambda span: [span.days, span.seconds, span.microseconds]),
    ((bytes, bytearray, memoryview), "bytes", lambda content: b64encode(bytes(content)).decode("ascii")),
    ((list, tuple, set), "list", lambda values: [encode_value(value) for value in values]),
    (dict, "object", lambda pairs: [[str(key), encode_value(value)] for key, value in pairs.items()]),
)
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "float": float,
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "interval": lambda parts: timedelta(*map(int, parts)),
    "bytes": lambda text: b64decode(text, validate=True),
    "list": lambda values: [decode_value(value) for value in values],
    "object": lambda pairs: {str(key): decode_value(value) for key, value in pairs},
}
