"""Nearest vectors from Chroma, in a folder or on a server, beside any store of record."""

from everhold.adapters.chroma.address import Address, read_address
from everhold.adapters.chroma.search import Match
from everhold.adapters.chroma.vectors import ChromaVectors

__all__ = ["Address", "ChromaVectors", "Match", "read_address"]
