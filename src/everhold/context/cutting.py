"""Cut a text so that it fits: after a sentence if possible, otherwise after a word, or else after any letter."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from everhold.text.chunking import SENTENCE_END
from everhold.text.lazy_pattern import lazy_pattern

ELLIPSIS = " …"

# No text is assumed to have more characters per token. A text that is too long even so is not tokenized.
CHARACTERS_PER_TOKEN = 32

_WORD_END = lazy_pattern(r"\s+")


def cut_text(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return the longest beginning of whole sentences that fits, else of words, else of letters, with an ellipsis.

    Return None if nothing fits.
    """
    return (
        cut_after_sentence(text, fits)
        or _cut_at(text, [match.start() for match in _WORD_END.finditer(text)], fits)
        or _cut_at(text, range(len(text)), fits)
    )


def cut_after_sentence(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return as many sentences as fit, with an ellipsis; None if no sentence fits."""
    return _cut_at(text, [match.end() for match in SENTENCE_END.finditer(text)], fits)


def _cut_at(text: str, ends: Sequence[int], fits: Callable[[str], bool]) -> str | None:
    def make_beginning(end: int) -> str:
        return text[:end].rstrip() + ELLIPSIS

    ends = ends[bisect_right(ends, len(text) - len(text.lstrip())) :]
    # `fits` counts tokens, which is slow for long texts, so the last end that fits is found by bisection.
    fitting_count = bisect_left(ends, True, key=lambda end: not fits(make_beginning(end)))
    return make_beginning(ends[fitting_count - 1]) if fitting_count else None
