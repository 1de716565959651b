"""Turning texts into vectors whose dot product is their likeness."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One text's vector: length 1, every value representable in half precision, read-only."""


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


def half_precision(matrix: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """The matrix with each value rounded to the nearest float16, as float32 and read-only.

    Vectors are stored as float16. Rounding them before anybody has seen them makes a stored vector and a
    live one the same numbers, so that no score changes when a process restarts.
    """
    rounded = matrix.astype(np.float16).astype(np.float32)
    rounded.flags.writeable = False
    return rounded
