"""Turning texts into vectors whose dot product is their likeness."""

from collections.abc import Sequence
from typing import Protocol

from everhold.model.vectors import Vector, half_precision

__all__ = ["Embedder", "Vector", "half_precision"]


class Embedder(Protocol):
    """Turns texts into vectors. The dot product of two is their cosine, −1 to 1; higher is nearer."""

    @property
    def model(self) -> str:
        """The name stored with every vector. Vectors of different models are never compared."""

    @property
    def dimensions(self) -> int:
        """How many values a vector has."""

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One vector per text, in the order of the texts. The same text gives the same vector, to rounding.

        None for a blank text, and for one mostly unknown to the model's vocabulary: a vector of it would be
        as near to one such text as to any other.
        """
