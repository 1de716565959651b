"""Nearest vectors from Chroma, in a folder or on a server, beside any store of record."""

from recollect.adapters.chroma.address import Address, read_address
from recollect.adapters.chroma.search import Match
from recollect.adapters.chroma.vectors import ChromaVectors

__all__ = ["Address", "ChromaVectors", "Match", "read_address"]
