"""Split long lists into batches, because a query can only take a limited number of values."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def split_into_batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
