"""Split a text into overlapping chunks that fit an embedding model.

A chunk ends after the last sentence that fits; if none does, after the last word, or else between two tokens. The next
chunk begins at the first such boundary within the overlap.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from everhold.errors import InvalidInput
from everhold.text.lazy_pattern import lazy_pattern


@runtime_checkable
class Tokenizer(Protocol):
    """Splits a text into the tokens of a model. A text must not have more tokens than bytes in UTF-8."""

    @property
    def special_tokens(self) -> int:
        """The number of tokens that the model adds to every text."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the character spans of all tokens in order, without the special ones.

        Tokens may share a character (a Korean syllable is up to three) and characters may belong to none
        (spaces, accents).
        """


class Span(NamedTuple):
    """A half-open range of characters: `start` belongs to it, `end` does not."""

    start: int
    end: int


class _Cuts(NamedTuple):
    """The positions where a text may be cut, in order, with the number of tokens before each."""

    positions: list[int]
    tokens_before: list[int]
    borders: tuple[Sequence[int], ...]
    """Three lists of indexes into `positions`, best first: the beginnings of sentences, those of words, and all."""


# In tokens: enough for one repeated and one new character of four tokens each, so that every chunk has new text.
MIN_CHUNK_TOKENS = 8

# In characters. A longer token is text that the model does not know: a long run of Thai is one unknown token. It is
# counted as, and cut into, pieces of half this length. Otherwise a whole book could be one chunk.
MAX_TOKEN_LENGTH = 16

# The maximum number of bytes of a character in UTF-8, and so the maximum number of its tokens.
BYTES_PER_CHARACTER = 4

CLOSERS = r"""["'”’»)\]}」』）】》]"""

# Possessive quantifiers (`++`) and the lookbehind prevent backtracking and a new start inside a rejected run, so that a
# megabyte of dots takes linear time. An ASCII mark ends a sentence only before space: 3.14 and example.org have no end.
SENTENCE_END = lazy_pattern(
    rf"(?<![.!?…])[.!?…]++{CLOSERS}*+\s++"
    rf"|[。！？｡．؟۔।॥၊။។]++{CLOSERS}*+\s*+"
    r"|[\n\r\v\f\x85\u2028\u2029]\s*+"
)


def split_into_chunks(text: str, tokenizer: Tokenizer, *, limit: int = 512, overlap: int = 50) -> list[Span]:
    """Return the spans of a text's chunks, in order.

    A chunk has at most `limit` tokens, including special ones, even if it is tokenised on its own. Neighbouring chunks
    share at most `overlap` tokens of the whole text. Every character except space is in at least one chunk.
    """
    budget = limit - tokenizer.special_tokens
    if budget < MIN_CHUNK_TOKENS or not 0 <= overlap <= budget // 2:
        raise InvalidInput(
            f"chunks of {limit} tokens cannot overlap by {overlap}",
            remedy=f"use chunks of at least {MIN_CHUNK_TOKENS + tokenizer.special_tokens} tokens "
            "and an overlap of at most half of them",
        )
    if not text or text.isspace():
        return []
    if _is_sure_to_fit(text, budget):
        return [_trim_span(text, 0, len(text))]
    return list(_generate_chunks(text, tokenizer, budget, overlap))


def _is_sure_to_fit(text: str, budget: int) -> bool:
    # Bytes, not characters, bound the number of tokens: 한 is one character, three bytes and three tokens.
    return len(text) <= budget and (text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= budget)


def _generate_chunks(text: str, tokenizer: Tokenizer, budget: int, overlap: int) -> Iterator[Span]:
    """Yield the spans of overlapping chunks of a text, each of at most `budget` tokens."""
    # The text between two cuts must fit into a chunk, however many tokens it has on its own.
    longest = min(MAX_TOKEN_LENGTH, budget // BYTES_PER_CHARACTER)
    cuts = _find_cuts(text, tokenizer.offsets(text), longest)
    last = len(cuts.positions) - 1
    first, reached = 0, 0
    while reached < last:
        end = _choose_end(cuts, first, reached, budget)
        fitting_end = _shrink_to_fit(text, tokenizer, cuts, first, end, budget)
        if fitting_end <= reached:
            # The overlap leaves no room for new text: begin where the last chunk ended.
            first = reached
            continue
        span = _trim_span(text, cuts.positions[first], cuts.positions[fitting_end])
        if span.start < span.end:
            yield span
        reached = fitting_end
        first = _choose_start(cuts, first, reached, overlap)


def _find_cuts(text: str, tokens: list[tuple[int, int]], longest: int) -> _Cuts:
    positions, tokens_before = [len(text) - len(text.lstrip())], [0]
    count = 0
    for start, end in tokens:
        for position in _split_token(text, start, end, longest):
            if position > positions[-1]:
                positions.append(position)
                tokens_before.append(count)
            count += 1
    positions.append(len(text))
    tokens_before.append(count)
    ends = {match.end() for match in SENTENCE_END.finditer(text)}
    sentences = [number for number, position in enumerate(positions) if position in ends]
    words = [number for number, position in enumerate(positions) if position and text[position - 1].isspace()]
    return _Cuts(positions, tokens_before, (sentences, words, range(len(positions))))


def _split_token(text: str, start: int, end: int, longest: int) -> Sequence[int]:
    """Return the positions where the pieces of a token begin: more than one if it is longer than `longest`."""
    if end - start <= longest:
        return (start,)
    step = longest // 2
    # A combining mark (category M), such as a vowel or tone sign, stays with its letter.
    positions = range(start + step, end, step)
    return [start, *(position for position in positions if unicodedata.category(text[position])[0] != "M")]


def _choose_end(cuts: _Cuts, first: int, reached: int, budget: int) -> int:
    """Return the cut where a chunk that begins at cut `first` ends: the last border of the best kind that fits.

    It comes after the cut `reached`, up to which the text is in chunks already.
    """
    latest = bisect_right(cuts.tokens_before, cuts.tokens_before[first] + budget) - 1
    if latest == len(cuts.positions) - 1:
        return latest
    for borders in cuts.borders:
        number = bisect_right(borders, latest) - 1
        if number >= 0 and borders[number] > max(first, reached):
            return borders[number]
    return latest


def _choose_start(cuts: _Cuts, first: int, end: int, overlap: int) -> int:
    """Return the cut where the chunk after cut `end` begins: the first border of the best kind within the overlap."""
    earliest = bisect_left(cuts.tokens_before, cuts.tokens_before[end] - overlap)
    for borders in cuts.borders:
        number = bisect_left(borders, max(earliest, first + 1))
        if number < len(borders) and borders[number] < end:
            return borders[number]
    return end


def _shrink_to_fit(text: str, tokenizer: Tokenizer, cuts: _Cuts, first: int, end: int, budget: int) -> int:
    """Return the last cut up to `end` at which the chunk is within the budget if it is tokenised on its own.

    It may have more tokens than in the whole text: an unknown word is one token, but a part of it may be many tokens.
    """
    start = cuts.positions[first]
    while end > first + 1:
        piece = text[start : cuts.positions[end]]
        if _is_sure_to_fit(piece, budget):
            return end
        tokens = tokenizer.offsets(piece)
        if len(tokens) <= budget:
            return end
        end = max(first + 1, min(end - 1, bisect_right(cuts.positions, start + tokens[budget][0]) - 1))
    return end


def _trim_span(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return Span(end - len(piece.lstrip()), start + len(piece.rstrip()))
