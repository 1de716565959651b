"""A second opinion on the best hits: a cross-encoder, or a language model."""

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Reads a question and a text together, which is slower than comparing vectors, and sees more."""

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the question, 0 to 1, higher is better; one number per text, in their order."""
        ...
