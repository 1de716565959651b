"""Correct misspelt words of a question.

A slip is two swapped letters, or one wrong, missing or surplus letter. The first letter must be right. A word is never
corrected to a longer word that begins with it. Words of fewer than 4 or more than 32 letters are not corrected, and
neither are words that exist.

`correct_spelling` corrects common words and names before the question is read. `find_respellings` finds terms of
memories that are in no list of words.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.text.terms import STOP_WORDS, extract_terms, stem

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MIN_LETTERS = 4
_MIN_BASE_LETTERS = 3
_MIN_NAME_LETTERS = 5
# From this length on, any slip is corrected, because few long words are similar to another word.
_LONG = 8
_MAX_LETTERS = 32  # about 54 spellings are tried per letter; longer words are rarely typed

# Characters. Trying the spellings of a longer question would take long, and a slip in it matters little.
MAX_CORRECTED_LENGTH = 1000

_WORD = re.compile(r"\b[A-Za-z]{4,32}\b")
_SWAP, _OMISSION, _SURPLUS, _WRONG_LETTER = range(4)
_ENDINGS = ("s", "es", "ed", "ing", "ly")
# Added to what is left without the ending: "making" is a form of "make".
_RESTORED_LETTERS = ("", "e")


def correct_spelling(query: str, is_stored: Callable[[str], bool], thesaurus: Thesaurus) -> str:
    """Return the question with its spelling mistakes corrected. `is_stored` says whether memories have a term.

    A misspelt word is replaced by a similar word that memories have, or by a stop word. Any other similar word is used
    only if two letters are swapped or the word is long: the vocabulary is not complete, and most short words are
    similar to another word. If memories have the stem of the word, the word is not replaced by another form of it with
    a different ending: "inhaler" is not a slip for "inhaled". A capitalised word may be a name, so it is only replaced
    by a stop word or by a name that memories have.
    """
    if thesaurus is NO_THESAURUS or len(query) > MAX_CORRECTED_LENGTH:
        return query

    def is_likely(word: str) -> bool:
        return word in STOP_WORDS or any(map(is_stored, extract_terms(word)))

    def correct(match: re.Match[str]) -> str:
        written = match[0]
        word, terms = written.lower(), extract_terms(written)
        if _is_word(word, thesaurus):
            return written
        candidates: Sequence[str] = _find_words_near(word, thesaurus)
        likely = [candidate for candidate in candidates if is_likely(candidate)]
        if any(map(is_stored, terms)):
            same_stem = (candidate for candidate in likely if extract_terms(candidate) == terms)
            candidates = [candidate for candidate in same_stem if not candidate.startswith(word[:-1])]
        elif word != written:
            candidates = [candidate for candidate in candidates if candidate in STOP_WORDS]
            candidates = candidates or _find_names_near(word, is_stored)
        elif likely:
            candidates = likely
        else:
            if len(word) < _LONG:
                candidates = [candidate for candidate in candidates if _classify_slip(candidate, word) == _SWAP]
            candidates = candidates or _find_stored_near(word, is_stored)
        best = min(
            candidates,
            key=lambda candidate: (_classify_slip(candidate, word), thesaurus.rank(candidate) or 0, candidate),
            default=written,
        )
        return best.capitalize() if word != written and best not in STOP_WORDS and best != written else best

    return _WORD.sub(correct, query)


def _find_stored_near(word: str, is_stored: Callable[[str], bool]) -> list[str]:
    """Return the spellings near a word whose stem memories have. The vocabulary need not know them."""
    return [spelling for spelling, term in _stem_spellings(word) if is_stored(term)]


def _find_names_near(word: str, is_stored: Callable[[str], bool]) -> list[str]:
    """Return the names near a misspelt name that memories have.

    The last letter must be right, because it often tells two names apart: Maria and Marie, Daniel and Daniela.
    """
    if len(word) < _MIN_NAME_LETTERS:
        return []
    return [spelling for spelling in set(_spell_otherwise(word, range(1, len(word) - 1))) if is_stored(spelling)]


@lru_cache(maxsize=256)
def _stem_spellings(word: str) -> tuple[tuple[str, str], ...]:
    """Return each spelling near a word, with its stem.

    Stemming takes about a millisecond, so the results are cached.
    """
    return tuple((spelling, stem(spelling)) for spelling in set(_spell_otherwise(word, range(1, len(word)))))


def _is_word(word: str, thesaurus: Thesaurus) -> bool:
    return thesaurus.rank(word) is not None or any(thesaurus.rank(form) is not None for form in _list_base_forms(word))


def _list_base_forms(word: str) -> Iterator[str]:
    """Yield the words of which a word may be a form, such as "stop" for "stopped". Some of them do not exist."""
    for ending in _ENDINGS:
        base = word.removesuffix(ending)
        if base != word and len(base) >= _MIN_BASE_LETTERS:
            yield from (base + letter for letter in _RESTORED_LETTERS)
            if base[-1] == base[-2]:
                yield base[:-1]


@lru_cache(maxsize=4096)
def _find_words_near(word: str, thesaurus: Thesaurus) -> tuple[str, ...]:
    """Return the known words that differ from a word by one slip.

    They are cached, because the same names are asked for often and several hundred spellings are tried.
    """
    spellings = set(_spell_otherwise(word, range(1, len(word))))
    return tuple(spelling for spelling in spellings if thesaurus.rank(spelling) is not None)


def _classify_slip(meant: str, written: str) -> int:
    """Return the kind of slip: swapped letters, a missing, a surplus or a wrong letter. Lower numbers are likelier."""
    if len(meant) != len(written):
        return _OMISSION if len(meant) > len(written) else _SURPLUS
    return _SWAP if sorted(meant) == sorted(written) else _WRONG_LETTER


def _spell_otherwise(word: str, positions: range) -> Iterator[str]:
    """Yield all spellings that a word may have been meant for, if the slip is at one of these indexes of its
    letters."""
    for position in positions:
        yield word[:position] + word[position + 1 :]
        yield word[:position] + word[position + 1 : position + 2] + word[position] + word[position + 2 :]
        for letter in _LETTERS:
            yield word[:position] + letter + word[position + 1 :]
            yield word[:position] + letter + word[position:]


def find_respellings(term: str, known_terms: Collection[str]) -> list[str]:
    """Return the terms of `known_terms` that differ by one slip from a term that is not among them."""
    if not _MIN_LETTERS <= len(term) <= _MAX_LETTERS or not (term.isascii() and term.isalpha()):
        return []
    spellings = set(_spell_otherwise(term, range(1, len(term) - 1)))
    return sorted(spelling for spelling in spellings if spelling in known_terms and spelling != term)
