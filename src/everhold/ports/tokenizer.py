"""How an embedding model cuts a text into tokens.

Chunking is pure and lies below the ports, so what it needs of a tokenizer is said there, once.
"""

from everhold.text.chunking import Tokenizer

__all__ = ["Tokenizer"]
