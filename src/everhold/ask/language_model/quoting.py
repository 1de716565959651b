"""Write names, values and texts into a prompt as data: one line of JSON that can neither be left nor be a mark.

Line breaks and quotes are escaped by JSON. `<`, `>` and backticks are escaped too, so no text can close the block that
it stands in, open a block of code, or contain a control token of a chat template such as `<|im_start|>`. Characters
that a person does not see are escaped, so that nothing is hidden in them.
"""

import json
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_MARKS: Final = "<>`"
# Formats, controls, surrogates, private use, not assigned, and separators other than the space.
_HIDDEN: Final = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Characters that are invisible although their category says otherwise.
_FILLERS: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_FIRST_ASTRAL: Final = 0x10000


def quote_data(value: object) -> str:
    """Return a value as one line of JSON without marks and hidden characters."""
    return "".join(map(_escape, json.dumps(value, ensure_ascii=False, default=str)))


def quote_line(values: Mapping[str, object]) -> str:
    """Return a JSON object with the values that are not empty."""
    return quote_data({name: value for name, value in values.items() if value not in (None, "", (), [])})


def shorten(text: str, length: int) -> str:
    """Return a text without line breaks and with at most `length` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 1]}…"


@lru_cache(maxsize=4096)
def _escape(character: str) -> str:
    if character.isascii():
        is_plain = character not in _MARKS and character.isprintable()
    else:
        # A variation selector is a mark by its category, and can spell out bytes that nobody sees.
        is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
        is_hidden = unicodedata.category(character) in _HIDDEN or character in _FILLERS or is_selector
        is_plain = not is_hidden
    return character if is_plain else _write_escape(ord(character))


def _write_escape(code: int) -> str:
    if code < _FIRST_ASTRAL:
        return f"\\u{code:04x}"
    high, low = divmod(code - _FIRST_ASTRAL, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
