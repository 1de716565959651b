"""Nearest vectors from index files, for stores without a vector index."""

from everhold.adapters.usearch.vectors import UsearchVectors

__all__ = ["UsearchVectors"]
