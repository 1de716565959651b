"""Summarise texts by quoting their best sentences.

A sentence is worth the terms that it adds to those already quoted: a term counts for more if several sentences use it,
and for less if it is common in any conversation. Sentences are chosen by worth per token. The words that
distinguish the texts and that no quoted sentence contains are listed as topics.
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

# The worth of a common term, as a share of another term's.
_COMMON_WORTH = 0.5
# The exponent of a sentence's length by which its worth is divided. Below 1, so that not only short ones are chosen.
_LENGTH_EXPONENT = 0.7
# The share of a summary's tokens that is kept for topics. Quotes are what people read, and topics are what is found.
_TOPIC_SHARE = 0.6
# In characters. A longer sentence is cut at a space, so that one sentence cannot fill a summary.
_MAX_SENTENCE = 240
# In characters. What follows in a longer text is not quoted.
_MAX_TEXT = 20_000
# Two quotes that share this much of their terms say the same.
_REPEATED_SHARE = 0.6

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text, with the number of the text in its sequence and the sentence's terms and tokens."""

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
    """The sentences that a summary quotes, in the order of the texts, and its topics, the weightiest first."""

    sentences: tuple[ChosenSentence, ...]
    topics: tuple[str, ...]


def summarise(texts: Sequence[str], budget: int, count_tokens: CountTokens, ignored: Iterable[str] = ()) -> Extract:
    """Return the best sentences and topics of some texts in at most `budget` tokens.

    At least one sentence is returned if there is any, even if it exceeds the budget. The terms of the `ignored` texts,
    such as the names of the speakers, are worth nothing.
    """
    sentences = [
        sentence for number, text in enumerate(texts) for sentence in split_sentences(text, number, count_tokens)
    ]
    worth = weigh_terms(sentences, ignored)
    chosen, left = _choose_sentences(sentences, worth, budget)
    covered = {term for number in chosen for term in sentences[number].terms}
    missing = {term: value for term, value in worth.items() if term not in covered}
    quoted = tuple(ChosenSentence(sentences[n].text, sentences[n].source, chosen[n]) for n in sorted(chosen))
    return Extract(quoted, _choose_topics(texts, missing, left, count_tokens))


def split_sentences(text: str, source: int, count_tokens: CountTokens) -> list[Sentence]:
    """Return the sentences of a text that have any terms."""
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
    """Return the worth of each term: the root of how many sentences have it, less for a common term."""
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
    """Return the numbers of the sentences that cover the most worth, with the gain of each, and the tokens left."""
    is_short = sum(sentence.tokens for sentence in sentences) <= budget  # then it is quoted whole
    for_topics = 0.0 if is_short else budget * _TOPIC_SHARE
    left = budget - for_topics
    covered: set[str] = set()
    chosen: dict[int, float] = {}
    # Quoting a sentence only lowers the gain of others. So a gain that is still the best after it was computed again
    # is the best of all, and few gains are computed more than once.
    heap = [(-_compute_gain(sentence, worth, covered), number) for number, sentence in enumerate(sentences)]
    heapq.heapify(heap)
    while heap:
        _, number = heapq.heappop(heap)
        sentence = sentences[number]
        gain = _compute_gain(sentence, worth, covered)
        if gain <= 0 or (sentence.tokens > left and chosen):
            continue
        if heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, number))
            continue
        left -= sentence.tokens
        covered |= sentence.terms
        chosen[number] = gain
    return chosen, left + for_topics


def _compute_gain(sentence: Sentence, worth: Mapping[str, float], covered: set[str]) -> float:
    # A set has another order in each process. An exact sum does not depend on it, so that equal gains stay equal and
    # every process quotes the same sentences.
    gained = math.fsum(worth.get(term, 0.0) for term in sentence.terms if term not in covered)
    return gained / math.pow(max(sentence.tokens, 1), _LENGTH_EXPONENT)


def _choose_topics(
    texts: Sequence[str], worth: Mapping[str, float], budget: float, count_tokens: CountTokens
) -> tuple[str, ...]:
    """Return words for the weightiest terms, each as the texts first write it."""
    words: dict[str, str] = {}
    for text in texts:
        for word in _WORD.findall(text[:_MAX_TEXT]):
            for term in extract_terms(word):
                words.setdefault(term, word)
    topics: dict[str, None] = {}  # each once, in order
    # Of terms of equal worth the longest is usually the rarest.
    for term in sorted(words.keys() & worth.keys(), key=lambda term: (-worth[term], -len(term), term)):
        tokens = count_tokens(words[term])
        if tokens <= budget and words[term] not in topics:
            budget -= tokens
            topics[words[term]] = None
    return tuple(topics)


def has_said(text: str, said: Iterable[frozenset[str]]) -> bool:
    """Return whether one of some sets of terms contains most of a text's terms."""
    terms = frozenset(extract_terms(text))
    return any(len(terms & other) >= _REPEATED_SHARE * len(terms) for other in said)
