"""Estimate tokens for a model whose tokenizer is not available."""

from everhold.text.lazy_pattern import lazy_pattern

SPECIAL_TOKENS = 2
_PIECE = lazy_pattern(r"[A-Za-z0-9_]{1,4}|[^\sA-Za-z0-9_]")


class EstimatedTokenizer:
    """A `Tokenizer` that rarely counts fewer tokens than the model.

    English text has four or more characters per token in every common vocabulary, and other scripts and signs rarely
    have more than one token per character. So a chunk is within the model's limit, but may be smaller than needed.
    """

    @property
    def special_tokens(self) -> int:
        return SPECIAL_TOKENS

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of runs of at most four ASCII word characters, and of every other character except space."""
        return [match.span() for match in _PIECE.finditer(text)]
