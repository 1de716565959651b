"""Summarise texts by quoting their best sentences.

The worth of a sentence is the sum over its terms that no quoted sentence contains yet. A term is worth more if several
sentences use it, and less if it is common in all conversations. Sentences are chosen by worth per token. Words that
distinguish the texts and occur in no quoted sentence are listed as topics.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from everhold.text.chunking import SENTENCE_END
from everhold.text.common_words import get_common_terms
from everhold.text.terms import extract_terms

CountTokens = Callable[[str], int]

# The worth of a common term, compared with that of another term.
_COMMON_WORTH = 0.5
# The worth of a sentence is divided by its length to the power of this. It is below 1, so that long sentences are also
# chosen.
_LENGTH_EXPONENT = 0.7
# The share of a summary's tokens that is reserved for topics. People read the quotes, and searches find the topics.
_TOPIC_SHARE = 0.6
# In characters. A longer sentence is cut at a space, so that one sentence cannot fill a summary.
_MAX_SENTENCE = 240
# In characters. The rest of a longer text is not quoted.
_MAX_TEXT = 20_000
# A text with at least this share of its terms in a quote repeats the quote.
_REPEATED_SHARE = 0.6

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True)
class Sentence:
    """A sentence with its terms and number of tokens. `source` is the index of its text."""

    text: str
    source: int
    terms: frozenset[str]
    tokens: int


@dataclass(frozen=True)
class ChosenSentence:
    """A sentence that a summary quotes, and its worth per token."""

    text: str
    source: int
    worth: float


@dataclass(frozen=True)
class Extract:
    """The sentences that a summary quotes, in the order of the texts, and its topics, those of most worth first."""

    sentences: tuple[ChosenSentence, ...]
    topics: tuple[str, ...]


def summarise(texts: Sequence[str], budget: int, count_tokens: CountTokens, ignored: Iterable[str] = ()) -> Extract:
    """Return the best sentences and topics of some texts in at most `budget` tokens.

    If there are sentences, at least one is returned, even if it exceeds the budget. The terms of the `ignored` texts,
    such as the names of the speakers, are worth nothing.
    """
    sentences = [
        sentence for index, text in enumerate(texts) for sentence in split_sentences(text, index, count_tokens)
    ]
    worth = weigh_terms(sentences, ignored)
    gains, tokens_left = _choose_sentences(sentences, worth, budget)
    covered_terms = {term for index in gains for term in sentences[index].terms}
    uncovered_worth = {term: value for term, value in worth.items() if term not in covered_terms}
    quoted_sentences = tuple(ChosenSentence(sentences[n].text, sentences[n].source, gains[n]) for n in sorted(gains))
    return Extract(quoted_sentences, _choose_topics(texts, uncovered_worth, tokens_left, count_tokens))


def split_sentences(text: str, source: int, count_tokens: CountTokens) -> list[Sentence]:
    """Return the sentences of a text that have terms; `source` is the index of the text."""
    text, pieces, start = text[:_MAX_TEXT], [], 0
    for match in SENTENCE_END.finditer(text):
        pieces.append(text[start : match.end()])
        start = match.end()
    pieces.append(text[start:])
    sentences = []
    for piece in pieces:
        sentence = _shorten(piece.strip())
        terms = frozenset(extract_terms(sentence))
        if terms:
            sentences.append(Sentence(sentence, source, terms, count_tokens(sentence)))
    return sentences


def _shorten(sentence: str) -> str:
    if len(sentence) <= _MAX_SENTENCE:
        return sentence
    return sentence[: _MAX_SENTENCE - 1].rsplit(" ", 1)[0].rstrip() + "…"


def weigh_terms(sentences: Sequence[Sentence], ignored: Iterable[str] = ()) -> dict[str, float]:
    """Return the worth of each term: the square root of the number of sentences with it, and less for a common term."""
    uses = Counter(term for sentence in sentences for term in sentence.terms)
    worthless = {term for text in ignored for term in extract_terms(text)}
    common = get_common_terms()
    return {
        term: math.sqrt(count) * (_COMMON_WORTH if term in common else 1.0)
        for term, count in uses.items()
        if term not in worthless
    }


def _choose_sentences(
    sentences: Sequence[Sentence], worth: Mapping[str, float], budget: int
) -> tuple[dict[int, float], float]:
    """Return the chosen sentences, as a mapping from their indexes to their gains per token, and the tokens left."""
    fits_whole = sum(sentence.tokens for sentence in sentences) <= budget  # then everything is quoted
    topic_tokens = 0.0 if fits_whole else budget * _TOPIC_SHARE
    tokens_left = budget - topic_tokens
    covered_terms: set[str] = set()
    gains: dict[int, float] = {}
    # Quoting a sentence can only lower the gains of others. So if a gain is still the best when it is computed again,
    # it is the best of all, and few gains need to be computed again.
    heap = [(-_compute_gain(sentence, worth, covered_terms), index) for index, sentence in enumerate(sentences)]
    heapq.heapify(heap)
    while heap:
        _, index = heapq.heappop(heap)
        sentence = sentences[index]
        gain = _compute_gain(sentence, worth, covered_terms)
        if gain <= 0 or (sentence.tokens > tokens_left and gains):
            continue
        if heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, index))
            continue
        tokens_left -= sentence.tokens
        covered_terms |= sentence.terms
        gains[index] = gain
    return gains, tokens_left + topic_tokens


def _compute_gain(sentence: Sentence, worth: Mapping[str, float], covered_terms: set[str]) -> float:
    # The order of a set differs between processes. `fsum` is exact and does not depend on the order, so that every
    # process quotes the same sentences.
    gain = math.fsum(worth.get(term, 0.0) for term in sentence.terms if term not in covered_terms)
    return gain / math.pow(max(sentence.tokens, 1), _LENGTH_EXPONENT)


def _choose_topics(
    texts: Sequence[str], worth: Mapping[str, float], budget: float, count_tokens: CountTokens
) -> tuple[str, ...]:
    """Return words for the terms of most worth, each as it is first written in the texts."""
    words: dict[str, str] = {}
    for text in texts:
        for word in _WORD.findall(text[:_MAX_TEXT]):
            for term in extract_terms(word):
                words.setdefault(term, word)
    topics: dict[str, None] = {}  # an ordered set
    # Among terms of equal worth, a longer one is usually rarer.
    for term in sorted(words.keys() & worth.keys(), key=lambda term: (-worth[term], -len(term), term)):
        tokens = count_tokens(words[term])
        if tokens <= budget and words[term] not in topics:
            budget -= tokens
            topics[words[term]] = None
    return tuple(topics)


def is_repetition(text: str, quoted_terms: Iterable[frozenset[str]]) -> bool:
    """Return whether at least one quote has most of the terms of a text. `quoted_terms` has the terms of each quote."""
    terms = frozenset(extract_terms(text))
    return any(len(terms & terms_of_quote) >= _REPEATED_SHARE * len(terms) for terms_of_quote in quoted_terms)
