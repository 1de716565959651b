"""Estimate tokens for a model whose tokenizer is not available."""

from everhold.text.lazy_pattern import lazy_pattern

SPECIAL_TOKENS = 2
_PIECE = lazy_pattern(r"[A-Za-z0-9_]{1,4}|[^\sA-Za-z0-9_]")


class EstimatedTokenizer:
    """A `Tokenizer` that seldom counts fewer tokens than the model does.

    English has four or more characters per token in every common vocabulary; other scripts and signs rarely have more
    than one token per character. So a chunk stays within the model's limit but is somewhat smaller than it could be.
    """

    @property
    def special_tokens(self) -> int:
        return SPECIAL_TOKENS

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return pieces of at most four ASCII letters or digits, and every other character alone."""
        return [match.span() for match in _PIECE.finditer(text)]
