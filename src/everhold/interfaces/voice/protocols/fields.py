"""Read the fields of requests, and write values as the older services did."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from everhold.errors import InvalidInput, format_value

# Four characters count as a token in the older services.
CHARACTERS_PER_TOKEN = 4
# The limits of what one request may send or ask for.
MAX_ITEMS = 1000
MAX_TOKENS = 100_000


def require_text(request: Mapping[str, Any], name: str) -> str:
    """Return a text that a request must have."""
    value = request.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} is missing", value=value, remedy=f"send {name} as text")
    return value


def read_text(request: Mapping[str, Any], name: str, default: str) -> str:
    """Return a text of a request, or the default if it is absent."""
    return default if request.get(name) in (None, "") else require_text(request, name)


def require_value(request: Mapping[str, Any], name: str) -> Any:
    """Return a value of any kind that a request must have."""
    value = request.get(name)
    if value in (None, "", [], {}):
        raise InvalidInput(f"{name} is missing", remedy=f"send {name}")
    return value


def read_object(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object of a request, or an empty one if it is absent."""
    value = request.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} is {format_value(value)}", value=value, remedy=f"send {name} as an object")
    return value


def read_list(request: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list of a request; a single value is a list of one, an absent one an empty list."""
    value = request.get(name)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if len(values) > MAX_ITEMS:
        raise InvalidInput(f"{name} has {len(values):,} items", value=len(values), remedy=f"send at most {MAX_ITEMS:,}")
    return values


def read_texts(request: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts of a request."""
    values = read_list(request, name)
    for value in values:
        if not isinstance(value, str):
            raise InvalidInput(f"{name} holds {format_value(value)}", value=value, remedy="send texts")
    return values


def read_count(request: Mapping[str, Any], name: str, default: int, highest: int = MAX_ITEMS) -> int:
    """Return a whole number from 1 to `highest`; larger ones are cut to it."""
    value = request.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
        raise InvalidInput(f"{name} is {format_value(value)}", value=value, remedy="send a whole number from 1")
    return min(int(value), highest)


def read_number(request: Mapping[str, Any], name: str, default: float) -> float:
    """Return a number of a request, or the default if it is absent."""
    value = request.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{name} is {format_value(value)}", value=value, remedy="send a number")
    return float(value)


def describe_value(value: Any) -> str:
    """Return the words of a value of any kind: a text itself, the `text` of an object, or the value as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str) and value["text"].strip():
        text: str = value["text"]
        return text
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=8192)  # a client reads the same turns of its session again and again
def format_iso(moment: datetime) -> str:
    """Return a time as ISO 8601."""
    return moment.isoformat()


def format_epoch(moment: datetime) -> float:
    """Return a time as seconds since 1970."""
    return moment.timestamp()


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return a text, or its first `tokens` tokens and "..." if it is longer."""
    limit = tokens * CHARACTERS_PER_TOKEN
    return text if len(text) <= limit else f"{text[:limit]}..."
