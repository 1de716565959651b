"""Write names, values and texts into a prompt as data, in single lines of JSON that cannot contain markup.

JSON escapes line breaks and quotes. `<`, `>` and backticks are escaped too, so that no text can close the block of
data, open a block of code, or contain a control token of a chat template such as `<|im_start|>`. Invisible characters
are escaped, so that no text can be hidden in them.
"""

import json
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_MARKS: Final = "<>`"
# Unicode categories: format, control, surrogate, private use, unassigned, and separators except the plain space.
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
        # Variation selectors are invisible, but their category is that of visible marks. Text can be hidden in them.
        is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
        is_hidden = unicodedata.category(character) in _HIDDEN or character in _FILLERS or is_selector
        is_plain = not is_hidden
    return character if is_plain else _write_escape(ord(character))


def _write_escape(code: int) -> str:
    if code < _FIRST_ASTRAL:
        return f"\\u{code:04x}"
    high, low = divmod(code - _FIRST_ASTRAL, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
