"""Read the descriptions of a function and of its parameters from a docstring.

Three styles are read: Google's `Args:`, NumPy's `Parameters` with a line of dashes, and Sphinx's `:param name:`.
"""

import inspect
import re
from typing import NamedTuple

_SECTION = re.compile(
    r"(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?|attributes|see also|warnings?)\s*:?",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(r"(args|arguments|parameters|params)\s*:?", re.IGNORECASE)
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?")
# Longer lines are treated as plain text, because the patterns above would take long on them.
_MAX_ITEM_LENGTH = 500


class Docstring(NamedTuple):
    """The description of a function, and the descriptions of its parameters by name."""

    description: str | None
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Parse a docstring. Parts in an unknown form become part of the description."""
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    parameters: dict[str, str] = {}
    index = 0
    while index < len(lines):
        if _split_field(lines[index]) is not None:
            index = _read_fields(lines, index, parameters)
        elif _begins_section(lines, index):
            end = _find_section_end(lines, index)
            if _PARAMETERS.fullmatch(lines[index].strip()):
                _read_items(lines, index, end, parameters)
            index = end
        else:
            description.append(lines[index])
            index += 1
    return Docstring("\n".join(description).strip() or None, parameters)


def _is_underlined(lines: list[str], index: int) -> bool:
    return index + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[index + 1].strip()) is not None


def _begins_section(lines: list[str], index: int) -> bool:
    line = lines[index]
    if line[:1].isspace() or len(line) > _MAX_ITEM_LENGTH or not _SECTION.fullmatch(line.strip()):
        return False
    return line.rstrip().endswith(":") or _is_underlined(lines, index)


def _find_section_end(lines: list[str], index: int) -> int:
    """Return the index of the line after a section, where another section or less indented text begins."""
    is_underlined = _is_underlined(lines, index)
    for end in range(index + (2 if is_underlined else 1), len(lines)):
        is_outside = bool(lines[end]) and not lines[end][:1].isspace() and not is_underlined
        if is_outside or _begins_section(lines, end) or _split_field(lines[end]) is not None:
            return end
    return len(lines)


def _read_items(lines: list[str], index: int, end: int, parameters: dict[str, str]) -> None:
    """Read the parameters of one section. Each item begins at the indentation of the section's first line."""
    is_underlined = _is_underlined(lines, index)
    body = [line for line in lines[index + (2 if is_underlined else 1) : end] if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in body), default=0)
    pattern, name = (_NUMPY_ITEM if is_underlined else _GOOGLE_ITEM), None
    for line in body:
        can_begin = len(line) - len(line.lstrip()) == margin and len(line) <= _MAX_ITEM_LENGTH
        item = pattern.fullmatch(line.strip()) if can_begin else None
        if item is not None:
            name = item[1]
            parameters[name] = item[2].strip() if not is_underlined else ""
        elif name is not None:
            parameters[name] = f"{parameters[name]} {line.strip()}".strip()


def _split_field(line: str) -> tuple[list[str], str] | None:
    """Return the words and the text of a line such as `:param int a: The first.`; None for any other line."""
    if not line.startswith(":"):
        return None
    head, colon, text = line[1:].partition(":")
    words = head.split() if len(head) <= _MAX_ITEM_LENGTH else []
    return (words, text.strip()) if colon and words and words[0].isidentifier() else None


def _read_fields(lines: list[str], index: int, parameters: dict[str, str]) -> int:
    """Read one `:param name: text` with the indented lines after it; return the line after it."""
    field = _split_field(lines[index])
    assert field is not None
    words, first = field
    text, index = [first], index + 1
    while index < len(lines) and lines[index][:1].isspace():
        text.append(lines[index].strip())
        index += 1
    if words[0] in ("param", "parameter", "arg", "argument") and len(words) > 1:
        parameters[words[-1].lstrip("*")] = " ".join(text).strip()
    return index
