"""Parse the beginning of a JSON file, to recognise its structure."""

import json
import re
from itertools import pairwise
from typing import Any

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+)')
_MAX_DEPTH = 64


def parse_outline(head: str) -> Any:
    """Return the JSON value at the beginning of a text, without the parts that are cut off at its end.

    Parts that are nested deeper than in any known format are left out too. None if the text does not begin with JSON.
    """
    root: list[Any] = []
    stack: list[list[Any] | dict[str, Any]] = [root]
    names: list[str | None] = [None]  # for each container of the stack, the name of the member that is being read
    is_name_next = False
    position = 0
    # An incomplete token at the end of the text does not match.
    while match := _TOKEN.match(head, position):
        position = match.end()
        token, holder = match.group(1), stack[-1]
        if token in "{[":
            value: Any = {} if token == "{" else []
            _add(holder, names[-1], value)
            stack.append(value)
            names.append(None)
            is_name_next = token == "{"
            if len(stack) > _MAX_DEPTH:
                return root[0]
        elif token in "}]":
            if len(stack) == 1:
                return None
            stack.pop()
            names.pop()
        elif token == ",":
            is_name_next = isinstance(holder, dict)
        elif token == ":":
            is_name_next = False
        elif is_name_next and token[0] == '"':
            names[-1] = _load(token)
        elif token[0] == '"' or _load(token) is not None or token == "null":
            _add(holder, names[-1], _load(token))
        else:
            return root[0] if root and position == len(head) else None
    _drop_incomplete(stack)
    return root[0] if root else None


def _drop_incomplete(stack: list[list[Any] | dict[str, Any]]) -> None:
    """Remove the last, incomplete object from its list or object, because it may lack fields."""
    for holder, _ in pairwise(stack[1:]):
        if len(holder) > 1 and isinstance(holder, list):
            holder.pop()
            return
        if len(holder) > 1 and isinstance(holder, dict) and all(isinstance(value, dict) for value in holder.values()):
            holder.popitem()
            return


def _add(holder: list[Any] | dict[str, Any], name: str | None, value: Any) -> None:
    if isinstance(holder, dict):
        if name is not None:
            holder[name] = value
    else:
        holder.append(value)


def _load(token: str) -> Any:
    try:
        return json.loads(token)
    except ValueError:
        return None
