"""Convert values of other systems: JSON in text columns, lists in a single text, vectors as bytes."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.json_streams import parse_line
from everhold.model.fields import MAX_DIMENSIONS

# The keys for the main text of an object in other systems, the most specific first.
TEXT_KEYS = ("text", "content", "memory", "message", "summary", "data", "value", "query", "response", "description")
_MAX_DESCRIBED_DEPTH = 8
_MAX_TAG_LENGTH = 64


def load_json(value: Any) -> Any:
    """Return the value of a JSON text. Other values, and texts that are not JSON, are returned unchanged."""
    if not isinstance(value, str) or not value.strip() or value.strip()[0] not in '[{"':
        return value
    try:
        return parse_line(value)
    except ValueError:
        return value


def read_object(value: Any) -> dict[str, Any]:
    """Return a value as an object. A JSON text is parsed, and a value that is not an object is put under "value"."""
    json_value = load_json(value)
    if json_value is None or json_value == "":
        return {}
    return json_value if isinstance(json_value, dict) else {"value": json_value}


def add_other_fields(metadata: Any, row: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return metadata with the fields of a row that are not in `known`, so that no field of the row is lost."""
    other_fields = {name: value for name, value in row.items() if name not in known and value not in (None, "")}
    return {**other_fields, **read_object(metadata)}


def read_number(name: str, text: str) -> int | float | None:
    """Return the number in a text of a CSV file or a loosely typed column; None for a blank text."""
    try:
        number = float(text) if text.strip() else None
    except ValueError:
        raise ValueError(f"{name} is {text!r:.60}, which is not a number") from None
    return int(number) if number is not None and number.is_integer() else number


def read_tags(value: Any) -> tuple[list[str], list[str]]:
    """Return the tags in a list, a JSON text or a comma-separated text, and the tags that are too long."""
    json_value = load_json(value)
    if isinstance(json_value, str):
        # PostgreSQL writes an array as {a,"b c"}.
        is_array = json_value.startswith("{") and json_value.endswith("}")
        words = json_value[1:-1].split(",") if is_array else json_value.split(",")
        json_value = [word.strip().strip('"') for word in words] if is_array else words
    if json_value is None:
        return [], []
    items = json_value if isinstance(json_value, list | tuple | set | Mapping) else [json_value]
    words = [word for item in items if (word := str(item).strip())]
    tags = [word for word in words if len(word) <= _MAX_TAG_LENGTH]
    long_tags = [word for word in words if len(word) > _MAX_TAG_LENGTH]
    return tags, long_tags


def describe(value: Any) -> str:
    """Return a JSON value as a text that can be searched."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for key in TEXT_KEYS:
            if isinstance(text := value.get(key), str) and text.strip():
                return text
    return "; ".join(_list_statements(value, "", 0))


def _list_statements(value: Any, name: str, depth: int) -> Iterable[str]:
    """Yield "name: value" for each value inside a value. Values below a maximum depth are left out of the text."""
    prefix = f"{name}: " if name else ""
    if depth > _MAX_DESCRIBED_DEPTH or value is None or value == "":
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _list_statements(item, f"{name} {key}".strip(), depth + 1)
    elif isinstance(value, list | tuple):
        plain_items = [str(item) for item in value if isinstance(item, str | int | float)]
        if plain_items:
            yield prefix + ", ".join(plain_items)
        for item in value:
            if isinstance(item, Mapping | list | tuple):
                yield from _list_statements(item, name, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        return
    else:
        yield f"{prefix}{value}"


def read_vector(value: Any) -> NDArray[np.float32] | None:
    """Return a vector from a list, a JSON text or little-endian float32 bytes; None if the value cannot be a vector."""
    numbers = load_json(value)
    if isinstance(numbers, bytes) and len(numbers) % 4 == 0 and len(numbers) <= 4 * MAX_DIMENSIONS:
        vector = np.frombuffer(numbers, dtype="<f4")
    elif isinstance(numbers, list) and len(numbers) <= MAX_DIMENSIONS and all(_is_number(item) for item in numbers):
        vector = np.array(numbers, dtype=np.float32)
    else:
        return None
    norm = float(np.linalg.norm(vector)) if vector.size and bool(np.isfinite(vector).all()) else 0.0
    return (vector / norm).astype(np.float32) if norm > 0 and math.isfinite(norm) else None


def _is_number(item: Any) -> bool:
    # The square of a larger number could overflow the norm of a vector.
    return isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < 1e30


def list_objects(values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in the list with this name; an empty list if there is no such list."""
    items = values.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
