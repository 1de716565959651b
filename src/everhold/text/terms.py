"""Extract the terms by which a text is found, so that they are the same on every store.

Words are folded (case, width, accents) and stemmed; stop words are left out. Scripts written without spaces, and
Hangul, which attaches particles to words, become pairs of neighbouring characters, so that a search finds any part of
a word.
"""

import re
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise

import Stemmer

from everhold.text.lazy_pattern import lazy_pattern

_ASCII_WORDS = lazy_pattern(r"[a-z0-9]+")
_ACCENTS = lazy_pattern(r"[\u0300-\u036f]+")
_UNSPACED_SCRIPTS = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uac00-\ud7af"  # kana, Hangul
)
_IDEOGRAPHS = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_UNSPACED_RUN = lazy_pattern(f"([{_UNSPACED_SCRIPTS}{_IDEOGRAPHS}]+)")
_IDEOGRAPH = lazy_pattern(f"[{_IDEOGRAPHS}]")


def _build_mark_class() -> str:
    """Return a character class of all combining marks, which are part of words but not matched by \\w."""
    marks = [code for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    starts = [code for code, before in zip(marks, [0, *marks], strict=False) if code != before + 1]
    ends = [code for code, after in zip(marks, [*marks[1:], 0], strict=True) if after != code + 1]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


@cache
def _compile_words() -> re.Pattern[str]:
    """Return the pattern of a word. Building it takes 10 ms, so only texts that are not ASCII use it."""
    return re.compile(rf"(?:[^\W_]|[{_build_mark_class()}])+")


_STOP_WORD_LIST = """a about above after again all am an and any are as at be because been before being below between
both but by can could d did do does doing down during each few for from further had has have having he her here hers
herself him himself his how i if in into is it its itself just ll m me more most my myself no nor not now of off on once
only or other our ours ourselves out over own re s same she should so some such t than that the their theirs them
themselves then there these they this those through to too under until up ve very was we were what when where
which while who whom why will with would you your yours yourself yourselves"""
STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
# The term that marks a text as a question. Queries never contain it.
QUESTION_MARK = "?"

# In characters. Longer words are cut to this length, because indexes refuse long terms and the stemmer caches words.
MAX_WORD_LENGTH = 128

# The maximum number of combining marks after a letter, as in Unicode's stream-safe text format. Python normalises a run
# of marks in quadratic time, so a long run would block the process.
_MAX_MARKS = 30

_stemmer = Stemmer.Stemmer("english", 0)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a folded word."""
    return str(_stemmer.stemWord(word))


def _split_ascii(folded: str) -> list[str]:
    """Return the words of an ASCII text, each cut to MAX_WORD_LENGTH characters."""
    words: list[str] = _ASCII_WORDS.findall(folded)
    return words if len(folded) <= MAX_WORD_LENGTH else [word[:MAX_WORD_LENGTH] for word in words]


def fold(text: str) -> str:
    """Return the text for comparison, with one width and case and without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", _shorten_marks(text)).casefold()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", decomposed))


def _shorten_marks(text: str) -> str:
    """Return the text with each run of combining marks cut to the first 30."""
    if len(text) <= _MAX_MARKS:
        return text
    marks, long_run = _compile_mark_patterns()
    # Testing only every 15th character is fast and enough: a run of more than 30 marks has two of these in a row.
    return long_run.sub(r"\1", text) if marks.search(text[:: _MAX_MARKS // 2]) else text


@cache
def _compile_mark_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of two marks, and that of a run that is too long, whose first group is the part to keep."""
    last = 0x1E94A  # the last character with a combining class, in Unicode 15
    marks = "".join(chr(code) for code in range(0x300, last + 1) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}]{{2}}"), re.compile(f"([{marks}]{{{_MAX_MARKS}}})[{marks}]+")


def extract_terms(text: str) -> list[str]:
    """Return the terms of a text in order, with repetitions."""
    folded = fold(text)
    if folded.isascii():
        return [stem(word) for word in _split_ascii(folded) if word not in STOP_WORDS]
    result: list[str] = []
    for word in _compile_words().findall(folded):
        if word.isascii():
            result += [stem(word[:MAX_WORD_LENGTH])] if word not in STOP_WORDS else []
            continue
        for run in filter(None, _UNSPACED_RUN.split(word)):
            result += _pair_characters(run) if _UNSPACED_RUN.match(run) else [stem(run[:MAX_WORD_LENGTH])]
    return result


def _pair_characters(run: str) -> list[str]:
    """Return every ideograph and every pair of neighbouring characters of a run."""
    singles = _IDEOGRAPH.findall(run) if len(run) > 1 else [run]
    return singles + [left + right for left, right in pairwise(run)]


def normalise(text: str) -> str:
    """Return the text in the form in which duplicates are equal: folded, with single spaces and no final full stop."""
    return " ".join(fold(text).split()).rstrip(".。 ")
