"""Cut a text so that it fits: after a sentence if possible, else after a word, else anywhere."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from everhold.text.chunking import SENTENCE_END
from everhold.text.lazy_pattern import lazy_pattern

ELLIPSIS = " …"

# More characters per token than any text has. A text that is too long by this measure is not tokenized.
CHARACTERS_PER_TOKEN = 32

_WORD_END = lazy_pattern(r"\s+")


def cut_text(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return the longest beginning that fits, with an ellipsis: whole sentences, else words, else letters."""
    return (
        cut_after_sentence(text, fits)
        or _cut_at(text, [match.start() for match in _WORD_END.finditer(text)], fits)
        or _cut_at(text, range(len(text)), fits)
    )


def cut_after_sentence(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return as many sentences as fit, with an ellipsis; None if none does."""
    return _cut_at(text, [match.end() for match in SENTENCE_END.finditer(text)], fits)


def _cut_at(text: str, ends: Sequence[int], fits: Callable[[str], bool]) -> str | None:
    def make_beginning(end: int) -> str:
        return text[:end].rstrip() + ELLIPSIS

    ends = ends[bisect_right(ends, len(text) - len(text.lstrip())) :]
    # Counting tokens is slow for long texts, so the last border that fits is found by bisection.
    fitting = bisect_left(ends, True, key=lambda end: not fits(make_beginning(end)))
    return make_beginning(ends[fitting - 1]) if fitting else None
