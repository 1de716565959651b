"""Nearest vectors from index files beside a store that has none of its own."""

from everhold.adapters.usearch.vectors import UsearchVectors

__all__ = ["UsearchVectors"]
