"""Validate a caller's vectors, and round them as they are stored and compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.errors import InvalidInput, format_value
from everhold.model.fields import MAX_DIMENSIONS

# The vector of one text. Its length is 1, every value is representable in half precision, and it is read-only.
Vector = NDArray[np.float32]

_NUMBERS = (int, float, np.integer, np.floating)
# The kinds of numpy arrays that hold floating-point numbers and whole numbers.
_NUMERIC = "fiu"


def round_to_half_precision(matrix: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return the matrix with each value rounded to the nearest float16, as float32 and read-only.

    Vectors are stored as float16. Rounding new vectors at once makes them equal to the stored ones, so that no score
    changes when a process restarts.
    """
    rounded = matrix.astype(np.float16).astype(np.float32)
    rounded.flags.writeable = False
    return rounded


def read_vector(value: Any, name: str, dimensions: int | None = None) -> Vector:
    """Return a caller's numbers as a vector of length 1 in half precision.

    `value` is a list of numbers or a numpy array with one axis, and `name` is its name in an error message. Raise
    InvalidInput if it is anything else, if it has not `dimensions` numbers, if a number is not finite, or if all are
    zero.
    """
    numbers = _read_numbers(value, name)
    if dimensions is not None and len(numbers) != dimensions:
        raise InvalidInput(
            f"{name} has {len(numbers):,} numbers, and its model has {dimensions:,} dimensions",
            value=len(numbers),
            remedy=f"pass {dimensions:,}",
        )
    largest = np.max(np.abs(numbers))
    if not np.isfinite(largest):
        raise InvalidInput(f"{name} holds a number that is not finite", remedy="pass finite numbers")
    if largest == 0:
        raise InvalidInput(f"{name} is a zero vector", remedy="leave it out, or pass one number other than 0")
    scaled = numbers / largest  # so that the squares of very large and very small numbers neither overflow nor vanish
    return round_to_half_precision(scaled / np.sqrt(scaled.dot(scaled)))


def _read_numbers(value: Any, name: str) -> NDArray[np.float64]:
    """Return the numbers of a list or an array. Raise InvalidInput if it is not one vector of numbers."""
    is_array = isinstance(value, np.ndarray)
    if not is_array and (isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence)):
        raise InvalidInput(f"{name} is {format_value(value)}", value=value, remedy="pass a list of numbers")
    if is_array and value.ndim != 1:
        raise InvalidInput(f"{name} is an array of {value.ndim} axes", remedy="pass one vector, an array of one axis")
    if not 1 <= len(value) <= MAX_DIMENSIONS:
        raise InvalidInput(
            f"{name} has {len(value):,} numbers", value=len(value), remedy=f"pass 1 to {MAX_DIMENSIONS:,}"
        )
    if is_array:
        if value.dtype.kind not in _NUMERIC:
            raise InvalidInput(f"{name} is an array of {value.dtype}", remedy="pass an array of numbers")
    else:
        other_items = [item for item in value if isinstance(item, bool) or not isinstance(item, _NUMBERS)]
        if other_items:
            raise InvalidInput(
                f"{name} holds {format_value(other_items[0])}", value=other_items[0], remedy="pass numbers only"
            )
    try:
        return np.asarray(value, np.float64)
    except OverflowError:
        raise InvalidInput(
            f"{name} holds a whole number that is too large", remedy="pass floating-point numbers"
        ) from None
