"""Read numbers in questions: digits, also with separators, and numbers in words."""

from collections.abc import Sequence
from dataclasses import dataclass

_UNIT_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS = {word: number for number, word in enumerate(_UNIT_WORDS.split())}
_TENS = {word: 10 * number for number, word in enumerate(_TEN_WORDS.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_TIMES = {"once": 1, "twice": 2, "thrice": 3}


@dataclass(frozen=True)
class NumberPhrase:
    """A number, and the number of words that it consists of. `counts_times` is true for "twice" and "three times"."""

    value: int | float
    length: int
    counts_times: bool = False


def read_number(words: Sequence[str]) -> NumberPhrase | None:
    """Return the number at the beginning of the words, such as "1,200", "3.5 million", "two hundred" or "twice"."""
    if not words:
        return None
    if words[0] in _TIMES:
        return NumberPhrase(_TIMES[words[0]], 1, counts_times=True)
    value, length = _read_digits(words) if words[0][:1].isdigit() else _read_words(words)
    if not length:
        return None
    counts_times = len(words) > length and words[length] in ("times", "time")
    return NumberPhrase(value, length + counts_times, counts_times)


def _read_digits(words: Sequence[str]) -> tuple[int | float, int]:
    plain = words[0].replace(",", "")
    try:
        value: int | float = int(plain) if plain.isdigit() else float(plain)
    except ValueError:
        return 0, 0
    length = 1
    while length < len(words) and words[length] in _SCALES:
        value *= _SCALES[words[length]]
        length += 1
    return (int(value) if value == int(value) and "." not in plain else value), length


def _read_words(words: Sequence[str]) -> tuple[int, int]:
    """Return the value of a number in words, and its length in words; the length is 0 if there is no number."""
    total = part = length = 0
    for word in words:
        if word in _UNITS and part % 10 == 0 and (part % 100 == 0 or _UNITS[word] < 10):
            part += _UNITS[word]
        elif word in _TENS and part % 100 == 0:
            part += _TENS[word]
        elif word == "hundred" and 0 < part < 10:
            part *= 100
        elif word in _SCALES and length and word != "hundred":
            total, part = total + part * _SCALES[word], 0
        else:
            break
        length += 1
    return total + part, length
