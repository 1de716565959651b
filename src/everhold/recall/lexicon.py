"""The lexicon of attributes: the phrases with which people ask for or state their employer, home, car and so on.

attributes.json has the phrases of each attribute, the phrases that tell of any change (`changes`), and those that tell
of plans, wishes, the past and additions (`unreal`). Phrases are compared by the stems of their words. In a phrase, `_`
stands for up to three words, `@` for a name and `0` for a number. An attribute is a bit; several attributes are a mask.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import stem

# The maximum number of words that `_` stands for.
_MAX_GAP = 3
# Words that are not stemmed, because they would become "account" and "date".
_UNSTEMMED = frozenset(("accountant", "accountants", "dating"))
_GAP, _NAME, _NUMBER = "_", "@", "0"
_WILDCARDS = frozenset((_GAP, _NAME, _NUMBER))
# The key in the index for phrases whose second word is a wildcard or that have no second word.
_ANY_WORD = ""
_WORD = lazy_pattern(r"[^\W_]+(?:[@.+_-]+[^\W_]+)*|[@_]")
# "Tara's new boss", but not "Tara's moving" or "Tara's a nurse".
_POSSESSIVE = lazy_pattern(
    r"\b([A-Z]\w+)'s(?= (?!(?:a|an|the|been|got|gone|now|in|at|on|off|back|down|up|out|took|no|not|my|our|his|her|still"
    r"|just|finally|\w+ing|\w+ed)\b)[a-z])"
)
_CONTRACTIONS = (
    (lazy_pattern(r"(?i)\bcan't\b"), "can not"),
    (lazy_pattern(r"(?i)\bwon't\b"), "will not"),
    (lazy_pattern(r"(?i)n't\b"), " not"),
    (lazy_pattern(r"(?i)'m\b"), " am"),
    (lazy_pattern(r"(?i)'s\b"), " is"),
    (lazy_pattern(r"(?i)'re\b"), " are"),
    (lazy_pattern(r"(?i)'ve\b"), " have"),
    (lazy_pattern(r"(?i)'ll\b"), " will"),
    (lazy_pattern(r"(?i)'d\b"), " would"),
)


class TextWord(NamedTuple):
    """A word of a text: as it is written, its stem, and whether it is a name, has a digit, or is a number.

    Words such as "fifty-two" are numbers without a digit.
    """

    text: str
    stem: str
    is_name: bool = False
    has_digit: bool = False
    is_number: bool = False


class Phrase(NamedTuple):
    """The stems of a phrase of the lexicon, and the bit of its attribute."""

    stems: tuple[str, ...]
    attribute: int


# The phrases by the stem of their first word, and then by the stem of their second word, or _ANY_WORD.
PhraseIndex = Mapping[str, Mapping[str, Sequence[Phrase]]]


class Lexicon:
    """The phrases by their use, the attributes by name, and the types of value of each attribute.

    The phrases for a use (`asks`, `states`, `hints`, `changes` or `unreal`) are indexed when that use is first needed.
    Of the phrases of `asks`, only those that begin with a word of the question are indexed.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._asks: dict[str, Mapping[str, Sequence[Phrase]]] = {}
        self.attributes: Mapping[str, int] = {name: 1 << bit for bit, name in enumerate(document["attributes"])}
        self.values: Mapping[int, frozenset[str]] = {
            self.attributes[name]: frozenset(entry["values"]) for name, entry in document["attributes"].items()
        }

    def index_asks(self, words: Sequence[TextWord]) -> PhraseIndex:
        """Return the phrases that ask for an attribute and that begin with one of these words."""
        return {word.stem: self._find_asks(word.stem) for word in words if word.stem in self.asks_by_first_word}

    def _find_asks(self, first: str) -> Mapping[str, Sequence[Phrase]]:
        if first not in self._asks:
            self._asks[first] = _index_phrases(self.asks_by_first_word[first])[first]
        return self._asks[first]

    @cached_property
    def asks_by_first_word(self) -> Mapping[str, Mapping[int, Sequence[str]]]:
        """The phrases that ask for each attribute, by the stem of their first word."""
        texts: dict[str, dict[int, list[str]]] = {}
        for attribute, phrases in self._list_phrases("asks").items():
            for phrase in phrases:
                first = split_phrase(phrase.partition(" ")[0])[0]
                texts.setdefault(first, {}).setdefault(attribute, []).append(phrase)
        return texts

    @cached_property
    def states(self) -> PhraseIndex:
        return self._index_use("states")

    @cached_property
    def hints(self) -> PhraseIndex:
        return self._index_use("hints")

    @cached_property
    def changes(self) -> PhraseIndex:
        return _index_phrases({0: self._document["changes"]})

    @cached_property
    def unreal(self) -> PhraseIndex:
        return _index_phrases({0: self._document["unreal"]})

    @cached_property
    def stems(self) -> Mapping[int, frozenset[str]]:
        """The stems in the phrases that state each attribute."""
        return {
            attribute: frozenset(part for phrase in phrases for part in split_phrase(phrase))
            for attribute, phrases in self._list_phrases("states").items()
        }

    def _index_use(self, use: str) -> PhraseIndex:
        return _index_phrases(self._list_phrases(use))

    def _list_phrases(self, use: str) -> Mapping[int, Sequence[str]]:
        return {self.attributes[name]: entry[use] for name, entry in self._document["attributes"].items()}


@cache
def get_lexicon() -> Lexicon:
    """Return the lexicon, which is read at its first use."""
    return Lexicon(json.loads(Path(__file__).with_name("attributes.json").read_text("utf-8")))


def _index_phrases(phrases: Mapping[int, Sequence[str]]) -> PhraseIndex:
    index: dict[str, dict[str, list[Phrase]]] = {}
    for attribute, texts in phrases.items():
        for text in texts:
            stems = split_phrase(text)
            second = stems[1] if len(stems) > 1 and stems[1] not in _WILDCARDS else _ANY_WORD
            index.setdefault(stems[0], {}).setdefault(second, []).append(Phrase(stems, attribute))
    return index


def reduce_word(word: str) -> str:
    """Return the stem of a word, or the word itself if its stem is that of an unrelated word."""
    return word if word in _UNSTEMMED else stem(word)


@cache
def split_phrase(phrase: str) -> tuple[str, ...]:
    """Return the stems of a phrase."""
    if phrase.isalpha():  # a single word, as most first words of phrases are
        return (reduce_word(phrase.lower()),)
    return tuple(reduce_word(word.lower()) for word in _WORD.findall(expand_contractions(phrase)))


def expand_contractions(text: str) -> str:
    """Return a text with "I am" for "I'm"; a possessive "'s" becomes "is", as it does in the lexicon."""
    text = text.replace("’", "'")
    if "'" in text:
        text = _POSSESSIVE.sub(r"\1 s", text)
        for pattern, expansion in _CONTRACTIONS:
            text = pattern.sub(expansion, text)
    return text


def list_words(text: str) -> list[TextWord]:
    """Return the words of a text with expanded contractions. Names and numbers are not marked as such."""
    return [TextWord(word, reduce_word(word.lower())) for word in _WORD.findall(text)]


def find_spans(text: str) -> Iterator[re.Match[str]]:
    """Yield a match for each word of a text with expanded contractions."""
    return _WORD.finditer(text)


def find_phrases(words: Sequence[TextWord], index: PhraseIndex) -> Iterator[Phrase]:
    """Yield the phrases of the index that occur in the words."""
    for start, word in enumerate(words):
        if word.stem in index:
            yield from _find_phrases_at(words, start, index[word.stem])
        if word.is_number and _NUMBER in index:
            yield from _find_phrases_at(words, start, index[_NUMBER])


def _find_phrases_at(
    words: Sequence[TextWord], start: int, phrases: Mapping[str, Sequence[Phrase]]
) -> Iterator[Phrase]:
    """Yield the phrases that occur in the words from `start` on. `phrases` is indexed by the second word."""
    candidates = phrases.get(_ANY_WORD, ())
    if start + 1 < len(words):
        candidates = (*candidates, *phrases.get(words[start + 1].stem, ()))
    for phrase in candidates:
        if _matches(words, start, phrase.stems):
            yield phrase


def _matches(words: Sequence[TextWord], start: int, stems: Sequence[str]) -> bool:
    """Return whether the words from `start` on match the stems of a phrase, or of the rest of a phrase."""
    for index, expected in enumerate(stems):
        if expected == _GAP:
            ends = range(start, min(start + _MAX_GAP, len(words)) + 1)
            return any(_matches(words, end, stems[index + 1 :]) for end in ends)
        if start >= len(words) or not _is_expected(words[start], expected):
            return False
        start += 1
    return True


def _is_expected(word: TextWord, expected: str) -> bool:
    return word.stem == expected or (expected == _NAME and word.is_name) or (expected == _NUMBER and word.is_number)
