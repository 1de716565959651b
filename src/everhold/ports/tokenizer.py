"""The tokenizer of an embedding model. Chunking lies below the ports, so the protocol is defined there."""

from everhold.text.chunking import Tokenizer

__all__ = ["Tokenizer"]
