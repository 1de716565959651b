"""How similar masked questions are: words and their pairs, and groups of characters, weighted by their rarity."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

_WORD_SIZES = (1, 2)
_LETTER_SIZES = (2, 3, 4)


class TextIndex:
    """Texts by their parts. A part is a run of words or of characters; it counts the more, the fewer texts have it."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._parts = [_Parts(texts, _list_word_runs), _Parts(texts, _list_letter_runs)]

    def measure(self, text: str) -> dict[int, float]:
        """Return the similarity of the texts that share a part with this one, from 0 to 1, by their places."""
        similarities: dict[int, float] = defaultdict(float)
        for parts in self._parts:
            for place, similarity in parts.measure(text).items():
                similarities[place] += similarity / len(self._parts)
        return similarities


class _Parts:
    """An inverted index of one kind of parts, with the cosine of weighted counts as similarity."""

    def __init__(self, texts: Sequence[str], split: Callable[[str], Iterator[str]]) -> None:
        self._split = split
        counts = [Counter(self._split(text)) for text in texts]
        documents = Counter(part for count in counts for part in count)
        self._weights = {part: math.log((1 + len(texts)) / (1 + number)) + 1 for part, number in documents.items()}
        self._unknown = math.log(1 + len(texts)) + 1
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, count in enumerate(counts):
            for part, weight in self._weigh(count).items():
                self._postings[part].append((place, weight))

    def _weigh(self, count: Mapping[str, int]) -> dict[str, float]:
        weighted = {part: number * self._weights.get(part, self._unknown) for part, number in count.items()}
        length = math.sqrt(sum(weight * weight for weight in weighted.values()))
        return {part: weight / length for part, weight in weighted.items()} if length else {}

    def measure(self, text: str) -> dict[int, float]:
        similarities: dict[int, float] = defaultdict(float)
        for part, weight in self._weigh(Counter(self._split(text))).items():
            for place, other in self._postings.get(part, ()):
                similarities[place] += weight * other
        return similarities


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
