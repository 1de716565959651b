"""Read whole numbers that a user may have typed."""

# Python refuses to read a number of more than some thousand digits. No number that a user means has so many.
_MAX_DIGITS = 9


def read_number(text: str) -> int | None:
    """Return the number in a text; None if it is not a whole number of at most nine digits."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None
