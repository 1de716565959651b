"""Split a question into tokens: words, numbers, quoted texts and the punctuation that the grammar reads."""

import re
from dataclasses import dataclass

from everhold.ask.language.stems import stem
from everhold.text.terms import fold

_QUOTES = {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "`": "'"}
_TOKEN = re.compile(
    r"""(?P<quoted>"[^"]+"|(?<!\w)'[^']+'(?!\w))"""
    r"""|(?P<date>\d{4}-\d{1,2}-\d{1,2}(?![\w-]))"""
    r"""|(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?![\w-])|\d+(?:\.\d+)?(?=-\w))"""
    r"""|(?P<word>[^\W_]+(?:[-/.&][^\W_]+)*(?:'[a-z]+)?)"""
    r"""|(?P<mark>[,;:?!().])"""
)
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Token:
    """A word, a number, a quoted text or a punctuation mark of a question. `lower` is the folded text.

    `kind` is "word", "number", "quoted" or "mark".
    """

    text: str
    lower: str
    stem: str
    kind: str

    @property
    def is_capitalised(self) -> bool:
        return self.text[:1].isupper()


def tokenize(question: str) -> tuple[Token, ...]:
    """Return the tokens of a question."""
    plain = "".join(_QUOTES.get(letter, letter) for letter in question)
    return tuple(_make_token(match) for match in _TOKEN.finditer(plain))


def _make_token(match: re.Match[str]) -> Token:
    kind = str(match.lastgroup).replace("date", "word")
    text = match.group()
    if kind == "quoted":
        text = text[1:-1]
    if kind == "word" and text.lower().endswith("'s"):
        text = text[:-2]
    lower = fold(text)
    return Token(text, lower, stem(lower) if kind == "word" else lower, kind)


def split_words(text: str) -> list[str]:
    """Return the words of a text in one case and without accents, for comparison."""
    return _WORDS.findall(fold(text))


def fold_text(text: str) -> str:
    """Return the folded words of a text, joined by spaces, for comparison."""
    return " ".join(split_words(text))
