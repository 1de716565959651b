"""Cutting a text into overlapping chunks that an embedding model reads whole.

A chunk ends after a sentence where one ends within reach, else after a word, else between two tokens; the
next one begins a little before, at the first such place within the overlap.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from everhold.errors import InvalidInput
from everhold.text.lazy_pattern import lazy_pattern


@runtime_checkable
class Tokenizer(Protocol):
    """Cuts a text into the tokens of a model. A text never has more tokens than its UTF-8 form has bytes."""

    @property
    def special_tokens(self) -> int:
        """How many tokens the model adds around every text."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The character spans of all tokens, in order, without the special ones.

        Tokens may share a character (a Korean syllable is up to three) and characters may belong to none
        (spaces, accents).
        """


class Span(NamedTuple):
    """From the character at `start` up to the one before `end`."""

    start: int
    end: int


class _Cuts(NamedTuple):
    """The places where a text may be cut, first to last, and how good each is."""

    positions: list[int]
    tokens_before: list[int]
    borders: tuple[Sequence[int], ...]
    """Numbers of the places that begin a sentence, that begin a word, and of all."""


SMALLEST_CHUNK = 8
"""Tokens: two characters of the most costly kind, one that is repeated and one that is new."""

LONGEST_TOKEN = 16
"""Characters. A longer token stands for a word the model does not know: a long run of Thai is *one* unknown
token. It is counted, and may be cut, by half as many characters; or a long book could be one chunk."""

BYTES_PER_CHARACTER = 4
"""At most, in UTF-8; and so the most tokens one character can be."""

CLOSERS = r"""["'”’»)\]}」』）】》]"""

# No alternative can start again inside a run that it has just rejected, and nothing backtracks (`++`): a
# megabyte of dots takes linear time. An ASCII mark ends a sentence only before space: 3.14, example.org.
SENTENCE_END = lazy_pattern(
    rf"(?<![.!?…])[.!?…]++{CLOSERS}*+\s++"
    rf"|[。！？｡．؟۔।॥၊။។]++{CLOSERS}*+\s*+"
    r"|[\n\r\v\f\x85\u2028\u2029]\s*+"
)


def chunk(text: str, tokenizer: Tokenizer, *, limit: int = 512, overlap: int = 50) -> list[Span]:
    """The spans of the chunks of a text, in order.

    A chunk has at most `limit` tokens, counting the special ones, also when it is tokenised on its own;
    neighbours share at most `overlap` tokens as counted in the whole text. Every character but space is in
    some chunk.
    """
    budget = limit - tokenizer.special_tokens
    if budget < SMALLEST_CHUNK or not 0 <= overlap <= budget // 2:
        raise InvalidInput(
            f"chunks of {limit} tokens that overlap by {overlap} cannot be made",
            remedy=f"a chunk needs at least"
            f" {SMALLEST_CHUNK + tokenizer.special_tokens} tokens and may overlap by half of them",
        )
    if not text or text.isspace():
        return []
    if _surely_fits(text, budget):
        return [_trimmed(text, 0, len(text))]
    return list(_chunks(text, tokenizer, budget, overlap))


def _surely_fits(text: str, budget: int) -> bool:
    # Bytes, not characters, bound the number of tokens: 한 is one character, three bytes and three tokens.
    return len(text) <= budget and (text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= budget)


def _chunks(text: str, tokenizer: Tokenizer, budget: int, overlap: int) -> Iterator[Span]:
    # What lies between two cuts must fit a chunk however it is tokenised on its own.
    longest = min(LONGEST_TOKEN, budget // BYTES_PER_CHARACTER)
    cuts = _cuts(text, tokenizer.offsets(text), longest)
    last = len(cuts.positions) - 1
    first, reached = 0, 0
    while reached < last:
        end = _end(cuts, first, reached, budget)
        fitting = _fit(text, tokenizer, cuts, first, end, budget)
        if fitting <= reached:
            # What was repeated leaves no room for anything new: begin where the last chunk ended.
            first = reached
            continue
        span = _trimmed(text, cuts.positions[first], cuts.positions[fitting])
        if span.start < span.end:
            yield span
        reached = fitting
        first = _start(cuts, first, reached, overlap)


def _cuts(text: str, tokens: list[tuple[int, int]], longest: int) -> _Cuts:
    positions, tokens_before = [len(text) - len(text.lstrip())], [0]
    count = 0
    for start, end in tokens:
        for position in _pieces(text, start, end, longest):
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


def _pieces(text: str, start: int, end: int, longest: int) -> Sequence[int]:
    """Where the pieces of a token begin: one piece, or many if it is longer than any word of a vocabulary."""
    if end - start <= longest:
        return (start,)
    step = longest // 2
    # A vowel or tone sign stays with its letter.
    return [start, *(at for at in range(start + step, end, step) if unicodedata.category(text[at])[0] != "M")]


def _end(cuts: _Cuts, first: int, reached: int, budget: int) -> int:
    """Where a chunk that begins at place `first` ends: on the last of the best borders beyond `reached`."""
    latest = bisect_right(cuts.tokens_before, cuts.tokens_before[first] + budget) - 1
    if latest == len(cuts.positions) - 1:
        return latest
    for borders in cuts.borders:
        number = bisect_right(borders, latest) - 1
        if number >= 0 and borders[number] > max(first, reached):
            return borders[number]
    return latest


def _start(cuts: _Cuts, first: int, end: int, overlap: int) -> int:
    """Where the chunk after one that ended at place `end` begins: on the first of the best borders."""
    earliest = bisect_left(cuts.tokens_before, cuts.tokens_before[end] - overlap)
    for borders in cuts.borders:
        number = bisect_left(borders, max(earliest, first + 1))
        if number < len(borders) and borders[number] < end:
            return borders[number]
    return end


def _fit(text: str, tokenizer: Tokenizer, cuts: _Cuts, first: int, end: int, budget: int) -> int:
    """The last place up to `end` where the chunk, tokenised on its own, is within the budget.

    Cutting inside a word changes its tokens: the rest of an unknown word may be known, and be many.
    """
    start = cuts.positions[first]
    while end > first + 1:
        piece = text[start : cuts.positions[end]]
        if _surely_fits(piece, budget):
            return end
        tokens = tokenizer.offsets(piece)
        if len(tokens) <= budget:
            return end
        end = max(first + 1, min(end - 1, bisect_right(cuts.positions, start + tokens[budget][0]) - 1))
    return end


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return Span(end - len(piece.lstrip()), start + len(piece.rstrip()))
