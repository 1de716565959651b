"""A reranker for the best hits: a cross-encoder, or a language model."""

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Scores how well a text answers a question by reading both together, slower but more precise than vectors."""

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return how well each text answers the question, from 0 to 1 (higher is better), in the order of the texts."""
        ...
