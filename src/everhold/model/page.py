"""The base class of the pages of results that verbs return."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeVar, overload

T = TypeVar("T")


class ResultPage(Sequence[T]):
    """A page of results that can be iterated, counted, indexed and sliced like a tuple. An empty page is false.

    A subclass is a dataclass. Its `_items_field` is the name of the field that has the results.
    """

    _items_field: ClassVar[str]

    @property
    def _items(self) -> tuple[T, ...]:
        items: tuple[T, ...] = getattr(self, self._items_field)
        return items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __repr__(self) -> str:
        first = f": {self._items[0]!r}" if self._items else ""
        return f"{type(self).__name__}({len(self)}{first}{', …' if len(self) > 1 else ''})"
