"""A `Value` is created, compared, hashed and printed like a dataclass."""

import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from everhold.values import Value, value_class


@dataclass(frozen=True)
class DataclassRow:
    name: str
    count: int = 0
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


@value_class
class ValueRow(Value):
    name: str
    count: int = 0
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


@value_class
class OtherValueRow(ValueRow):
    pass


@dataclass(frozen=True)
class DataclassWithDefaults:
    name: str
    names: list[str] = field(default_factory=list)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


@value_class
class ValueWithDefaults(Value):
    name: str
    names: list[str] = field(default_factory=list)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


ARGUMENTS: list[tuple[Any, ...]] = [("a",), ("a", 1), ("b", 1), ("a", 1, "noted"), ("a", 1, "", "hidden")]


@pytest.mark.parametrize("first", ARGUMENTS)
@pytest.mark.parametrize("second", ARGUMENTS)
def test_values_are_equal_where_dataclasses_are(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    expected = DataclassRow(*first) == DataclassRow(*second)
    assert (ValueRow(*first) == ValueRow(*second)) is expected
    assert len({ValueRow(*first), ValueRow(*second)}) == (1 if expected else 2)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_values_print_as_dataclasses_do(arguments: tuple[Any, ...]) -> None:
    assert repr(ValueRow(*arguments)) == repr(DataclassRow(*arguments)).replace("DataclassRow", "ValueRow")


def test_values_of_different_classes_differ() -> None:
    assert ValueRow("a") != OtherValueRow("a")
    assert ValueRow("a") != DataclassRow("a")


@pytest.mark.parametrize("row_class", [DataclassWithDefaults, ValueWithDefaults])
def test_defaults_are_made_for_each_value(row_class: Callable[..., Any]) -> None:
    first, second = row_class("a"), row_class(name="bc", names=["d"])
    assert (first.names, first.length, second.names, second.length) == ([], 1, ["d"], 2)
    assert first.names is not row_class("a").names


@pytest.mark.parametrize("arguments", [(), ("a", ["b"], 3)])
def test_wrong_arguments_are_refused_as_dataclasses_refuse_them(arguments: tuple[Any, ...]) -> None:
    errors = []
    for row_class in (DataclassWithDefaults, ValueWithDefaults):
        with pytest.raises(TypeError) as caught:
            row_class(*arguments)
        errors.append(str(caught.value))
    assert errors[1] == errors[0].replace("DataclassWithDefaults", "ValueWithDefaults")


def test_the_signature_and_the_fields_are_known_before_the_first_value() -> None:
    @value_class
    class Fresh(Value):
        name: str
        count: int = 0

    assert str(inspect.signature(Fresh)) == "(name: str, count: int = 0) -> None"
    assert [entry.name for entry in fields(Fresh)] == ["name", "count"]
    assert Fresh("a") == Fresh("a", count=0)


def test_a_value_is_frozen_and_can_be_replaced_and_pickled() -> None:
    value = ValueRow("a", 1)
    with pytest.raises(FrozenInstanceError):
        setattr(value, "name", "b")  # noqa: B010
    with pytest.raises(FrozenInstanceError):
        delattr(value, "name")
    assert replace(value, name="b") == ValueRow("b", 1)
    assert pickle.loads(pickle.dumps(value)) == value
