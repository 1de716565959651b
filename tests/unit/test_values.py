"""A Value compares, hashes and prints like a dataclass with methods of its own."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from everhold.values import Value


@dataclass(frozen=True)
class Plain:
    name: str
    count: int = 0
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Shared(Value):
    name: str
    count: int = 0
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Other(Shared):
    pass


ROWS: list[tuple[Any, ...]] = [("a",), ("a", 1), ("b", 1), ("a", 1, "noted"), ("a", 1, "", "hidden")]


@pytest.mark.parametrize("first", ROWS)
@pytest.mark.parametrize("second", ROWS)
def test_values_are_equal_where_dataclasses_are(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    expected = Plain(*first) == Plain(*second)
    assert (Shared(*first) == Shared(*second)) is expected
    assert len({Shared(*first), Shared(*second)}) == (1 if expected else 2)


@pytest.mark.parametrize("row", ROWS)
def test_values_print_as_dataclasses_do(row: tuple[Any, ...]) -> None:
    assert repr(Shared(*row)) == repr(Plain(*row)).replace("Plain", "Shared")


def test_values_of_different_classes_differ() -> None:
    assert Shared("a") != Other("a")
    assert Shared("a") != Plain("a")
