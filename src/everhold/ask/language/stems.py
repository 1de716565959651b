"""Reduce words to stems, so that "cities" and "city" are the same."""

from functools import lru_cache

import Stemmer

_stemmer = Stemmer.Stemmer("english", 0)
# Irregular plurals, which the stemmer does not know.
_IRREGULAR = {
    "people": "person", "persons": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot",
    "mice": "mouse", "geese": "goose", "media": "medium", "data": "data", "aircrafts": "aircraft",
}  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    return str(_stemmer.stemWord(_IRREGULAR.get(word, word)))
