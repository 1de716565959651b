"""Compare masked questions by their words, pairs of words and groups of characters, weighted by rarity."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

_WORD_SIZES = (1, 2)
_LETTER_SIZES = (2, 3, 4)


Vector = Mapping[str, float]
"""The parts of a text with their weights. The length of the vector is 1."""


class TextIndex:
    """An index of texts by their parts: sequences of words and of characters. Rarer parts have more weight."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._indexes = [_PartIndex(texts, _list_word_runs), _PartIndex(texts, _list_letter_runs)]

    def weigh(self, text: str) -> tuple[Vector, ...]:
        """Return the vectors of a text, with which this index compares it."""
        return tuple(index.weigh(text) for index in self._indexes)

    def measure(self, vectors: Sequence[Vector]) -> dict[int, float]:
        """Return the similarity, from 0 to 1, of each indexed text that shares a part with a text, by its position."""
        similarities: dict[int, float] = defaultdict(float)
        for index, vector in zip(self._indexes, vectors, strict=True):
            for part, weight in vector.items():
                for position, text_weight in index.postings.get(part, ()):
                    similarities[position] += weight * text_weight / len(self._indexes)
        return similarities


def compare_vectors(first: Sequence[Vector], second: Sequence[Vector]) -> float:
    """Return the similarity of two texts from 0 to 1. Their vectors must come from the same index."""
    products = (_multiply(left, right) for left, right in zip(first, second, strict=True))
    return sum(products) / len(first)


def _multiply(left: Vector, right: Vector) -> float:
    """Return the scalar product of two vectors."""
    return sum(weight * right[part] for part, weight in left.items() if part in right)


class _PartIndex:
    """An inverted index of one kind of parts."""

    def __init__(self, texts: Sequence[str], split: Callable[[str], Iterator[str]]) -> None:
        self._split = split
        part_counts = [Counter(split(text)) for text in texts]
        text_counts = Counter(part for counts in part_counts for part in counts)
        self._weights = {part: math.log((1 + len(texts)) / (1 + count)) + 1 for part, count in text_counts.items()}
        self._unknown_weight = math.log(1 + len(texts)) + 1
        self.postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for position, counts in enumerate(part_counts):
            for part, weight in self._weigh(counts).items():
                self.postings[part].append((position, weight))

    def weigh(self, text: str) -> dict[str, float]:
        return self._weigh(Counter(self._split(text)))

    def _weigh(self, counts: Mapping[str, int]) -> dict[str, float]:
        weighted = {part: count * self._weights.get(part, self._unknown_weight) for part, count in counts.items()}
        length = math.sqrt(sum(weight * weight for weight in weighted.values()))
        return {part: weight / length for part, weight in weighted.items()} if length else {}


def _list_word_runs(text: str) -> Iterator[str]:
    words = text.split()
    for size in _WORD_SIZES:
        for start in range(len(words) - size + 1):
            yield " ".join(words[start : start + size])


def _list_letter_runs(text: str) -> Iterator[str]:
    padded = f" {text} "
    for size in _LETTER_SIZES:
        for start in range(len(padded) - size + 1):
            yield padded[start : start + size]
