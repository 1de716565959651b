"""Words that a question misspells.

Two swapped letters are taken for a slip, and so is one wrong, missing or surplus letter. The first letter must be
right, and a word is never taken for a longer one that it merely begins. Words of fewer than 4 or more than 32 letters
are taken as they are, and so are words that exist.

`correct_spelling` corrects common words before the question is read. `find_respellings` finds the terms of memories,
such as names, that no list of words has.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.text.terms import STOP_WORDS, extract_terms, stem

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MIN_LETTERS = 4
_MIN_BASE_LETTERS = 3
_LONG = 8
_MAX_LETTERS = 32  # about 54 spellings are tried per letter; no word that people misspell is longer

# Characters. Trying the spellings of a longer question would take long, and a slip in it matters little.
MAX_CORRECTED_LENGTH = 1000

_WORD = re.compile(r"\b[A-Za-z]{4,32}\b")
_SWAP, _OMISSION, _SURPLUS, _WRONG_LETTER = range(4)
_ENDINGS = ("s", "es", "ed", "ing", "ly")
_AFTER_ENDING = ("", "e")


def correct_spelling(query: str, is_held: Callable[[str], bool], thesaurus: Thesaurus) -> str:
    """Return the question with its spelling mistakes corrected. `is_held` says whether memories have a term.

    A misspelt word is replaced by a similar one that memories have, or by a stop word. Any other similar word is used
    only if two letters are swapped or the word is long: the vocabulary is not complete, and most short words are
    similar to another word. A word that memories have in some form is not replaced by a form with another end:
    "inhaler" is no slip for "inhaled". A capitalised word may be a name; names are left to `find_respellings`.
    """
    if thesaurus is NO_THESAURUS or len(query) > MAX_CORRECTED_LENGTH:
        return query

    def is_likely(word: str) -> bool:
        return word in STOP_WORDS or any(map(is_held, extract_terms(word)))

    def correct(match: re.Match[str]) -> str:
        written = match[0]
        word, terms = written.lower(), extract_terms(written)
        if _exists(word, thesaurus):
            return written
        candidates: Sequence[str] = _find_words_near(word, thesaurus)
        likely = [candidate for candidate in candidates if is_likely(candidate)]
        if any(map(is_held, terms)):
            same = (candidate for candidate in likely if extract_terms(candidate) == terms)
            candidates = [candidate for candidate in same if not candidate.startswith(word[:-1])]
        elif word != written:
            candidates = [candidate for candidate in candidates if candidate in STOP_WORDS]
        elif likely:
            candidates = likely
        else:
            if len(word) < _LONG:
                candidates = [candidate for candidate in candidates if _classify_slip(candidate, word) == _SWAP]
            candidates = candidates or _find_held_near(word, is_held)
        return min(
            candidates,
            key=lambda candidate: (_classify_slip(candidate, word), thesaurus.rank(candidate) or 0, candidate),
            default=written,
        )

    return _WORD.sub(correct, query)


def _find_held_near(word: str, is_held: Callable[[str], bool]) -> list[str]:
    """Return the spellings near a word that memories have in some form, though the vocabulary does not know them."""
    return [spelling for spelling, term in _stem_spellings(word) if is_held(term)]


@lru_cache(maxsize=256)
def _stem_spellings(word: str) -> tuple[tuple[str, str], ...]:
    """Return each spelling near a word, and its term. Stemming them takes about a millisecond, so they are kept."""
    return tuple((spelling, stem(spelling)) for spelling in set(_spell_otherwise(word, range(1, len(word)))))


def _exists(word: str, thesaurus: Thesaurus) -> bool:
    return thesaurus.rank(word) is not None or any(thesaurus.rank(form) is not None for form in _base_forms(word))


def _base_forms(word: str) -> Iterator[str]:
    for ending in _ENDINGS:
        base = word.removesuffix(ending)
        if base != word and len(base) >= _MIN_BASE_LETTERS:
            yield from (base + after for after in _AFTER_ENDING)
            if base[-1] == base[-2]:
                yield base[:-1]


@lru_cache(maxsize=4096)
def _find_words_near(word: str, thesaurus: Thesaurus) -> tuple[str, ...]:
    """Return the known words that one slip makes of a word. They are kept: names are asked for again and again, and
    some hundred spellings are tried."""
    spellings = set(_spell_otherwise(word, range(1, len(word))))
    return tuple(spelling for spelling in spellings if thesaurus.rank(spelling) is not None)


def _classify_slip(meant: str, written: str) -> int:
    """Return the kind of slip: two letters swapped, one missing, one too many, or one wrong. The likeliest is least."""
    if len(meant) != len(written):
        return _OMISSION if len(meant) > len(written) else _SURPLUS
    return _SWAP if sorted(meant) == sorted(written) else _WRONG_LETTER


def _spell_otherwise(word: str, places: range) -> Iterator[str]:
    """Yield what a word may have been meant for, if the slip is at one of these places."""
    for at in places:
        yield word[:at] + word[at + 1 :]
        yield word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
        for letter in _LETTERS:
            yield word[:at] + letter + word[at + 1 :]
            yield word[:at] + letter + word[at:]


def find_respellings(term: str, known: Collection[str]) -> list[str]:
    """Return the known terms that an unknown one may be a slip of."""
    if not _MIN_LETTERS <= len(term) <= _MAX_LETTERS or not (term.isascii() and term.isalpha()):
        return []
    spellings = set(_spell_otherwise(term, range(1, len(term) - 1)))
    return sorted(spelling for spelling in spellings if spelling in known and spelling != term)
