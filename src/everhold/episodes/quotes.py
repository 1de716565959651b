"""Choose the quotes of a summary, and render them as text."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from everhold.text.summaries import CountTokens, is_repetition
from everhold.text.terms import extract_terms

# A stored quote has the keys `message`, `text`, `speaker`, `at` and `worth`. Quotes of rollups also have `episode` and
# `session`. `user` and `agent` are set if they differ from the session's, and `conversation` if the message has one.
Quote = dict[str, Any]


def choose_quotes(parts: Iterable[Iterable[Quote]], budget: int, count_tokens: CountTokens) -> list[Quote]:
    """Return quotes of all parts in at most `budget` tokens, ordered by time.

    The best quote of each part is chosen first, then the second best of each, so that a summary covers as many parts
    as possible. A quote that repeats another one is left out.
    """
    # Each candidate is its index in its part (0 is the best quote), its sort key and the quote.
    candidates = [
        (position, rank, quote)
        for part in parts
        for position, (rank, quote) in enumerate(sorted(((_rank(quote), quote) for quote in part), key=itemgetter(0)))
    ]
    chosen_quotes: list[Quote] = []
    chosen_terms: list[frozenset[str]] = []
    for _, _, quote in sorted(candidates, key=itemgetter(0, 1)):
        tokens = count_tokens(render_quote(quote)) + 1  # the line break
        if tokens <= budget and not is_repetition(quote["text"], chosen_terms):
            budget -= tokens
            chosen_quotes.append(quote)
            chosen_terms.append(frozenset(extract_terms(quote["text"])))
    return sorted(chosen_quotes, key=lambda quote: (quote["at"], quote["message"]))


def _rank(quote: Quote) -> tuple[float, str, str]:
    """Return a key that sorts quotes by their worth, best first."""
    return -quote["worth"], quote["at"], quote["text"]


def render_quote(quote: Quote) -> str:
    """Return a quote as a line with its day, speaker and text."""
    return f"{quote['at'][:10]} {quote['speaker']}: {quote['text']}"


def render_quotes(quotes: Sequence[Quote]) -> str:
    """Return the quotes of several episodes as text, one per line."""
    return "\n".join(render_quote(quote) for quote in quotes)


def render_episode(quotes: Sequence[Quote], topics: Sequence[str]) -> str:
    """Return the summary of one episode: the quotes by speaker, and the topics."""
    lines: list[str] = []
    speaker = None
    for quote in quotes:
        if quote["speaker"] == speaker:
            lines[-1] += f" {quote['text']}"
        else:
            speaker = quote["speaker"]
            lines.append(f"{speaker}: {quote['text']}")
    if topics:
        lines.append(f"Also: {' '.join(topics)}")  # no commas, because each would cost a token
    return "\n".join(lines)
