"""Words that a question spells a little otherwise than the memories do.

Two swapped letters are taken for a slip, and so is one wrong, missing or surplus letter inside a word. The first letter
must be right, and a word is never taken for a longer one that it merely begins. Words of fewer than 4 or more than 32
letters are taken as they are. The caller must leave out words that exist.
"""

from collections.abc import Collection

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LEAST_LETTERS = 4
_MOST_LETTERS = 32  # about 54 spellings are tried per letter; no word that people misspell is longer


def respelled(term: str, known: Collection[str]) -> list[str]:
    """The known terms that an unknown one may have been meant for."""
    if not _LEAST_LETTERS <= len(term) <= _MOST_LETTERS or not (term.isascii() and term.isalpha()):
        return []
    inside = range(1, len(term) - 1)
    found = {term[:at] + term[at + 1] + term[at] + term[at + 2 :] for at in inside}
    found |= {term[:at] + term[at + 1 :] for at in inside}
    found |= {term[:at] + letter + term[at + 1 :] for at in inside for letter in _LETTERS}
    found |= {term[:at] + letter + term[at:] for at in inside for letter in _LETTERS}
    found.discard(term)
    return sorted(one for one in found if one in known)
