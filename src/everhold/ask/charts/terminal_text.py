"""Text for a terminal: without control characters, and as wide as it is meant to be."""

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def clean_text(text: str) -> str:
    """Return a text without characters that move the cursor, change colors or turn the direction of writing."""
    return "".join("·" if unicodedata.category(character) in _HIDDEN else character for character in text)


def measure_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_measure_character(character) for character in text)


def _measure_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit_text(text: str, width: int, *, right: bool = False) -> str:
    """Return a clean text in exactly `width` columns: cut with "…", or filled with spaces."""
    fitted = clean_text(text)
    if measure_width(fitted) > width:
        kept, used = "", 0
        for character in fitted:
            used += _measure_character(character)
            if used > width - 1:
                break
            kept += character
        fitted = f"{kept}…"
    space = " " * (width - measure_width(fitted))
    return space + fitted if right else fitted + space
