"""Remove control characters from text, and fit text to a width in a terminal."""

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # parts of letters and of emoji


def clean_text(text: str) -> str:
    """Return a text without characters that move the cursor, change colors or turn the direction of writing."""
    return text if text.isprintable() else "".join("·" if _is_hidden(character) else character for character in text)


def _is_hidden(character: str) -> bool:
    if character in _JOINERS:
        return False
    # The last two code points of each plane are not characters, and a picture with one cannot be drawn.
    return unicodedata.category(character) in _HIDDEN or ord(character) & 0xFFFE == 0xFFFE


def measure_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return sum(_measure_character(character) for character in text)


def _measure_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit_text(text: str, width: int) -> str:
    """Return a clean text of exactly `width` columns, cut with "…" or padded with spaces at its end."""
    fitted = clean_text(text)
    if measure_width(fitted) > width:
        shortened, used_width = "", 0
        for character in fitted:
            used_width += _measure_character(character)
            if used_width > width - 1:
                break
            shortened += character
        fitted = f"{shortened}…"
    return fitted + " " * (width - measure_width(fitted))
