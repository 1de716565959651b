"""The embedding model: turns texts into vectors whose dot product is their similarity."""

from collections.abc import Sequence
from typing import Protocol

from everhold.model.vectors import Vector, round_to_half_precision

__all__ = ["Embedder", "Vector", "round_to_half_precision"]


class Embedder(Protocol):
    """Turns texts into vectors. The dot product of two is their cosine, −1 to 1; higher is nearer."""

    @property
    def model(self) -> str:
        """The name stored with every vector. Vectors of different models are never compared."""

    @property
    def dimensions(self) -> int:
        """The number of values in a vector."""

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return one vector per text, in the order of the texts. The same text gives the same vector, up to rounding.

        A blank text gives None, and so does a text whose tokens are mostly unknown to the model: all such texts
        would have nearly the same vector.
        """
