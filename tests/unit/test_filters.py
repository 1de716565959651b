"""Filters of callers become conditions on rows."""

from datetime import UTC, datetime

import pytest

from everhold.errors import InvalidInput, UnknownField
from everhold.model import Memory
from everhold.recall.filters import Filter, check_include, make_filter
from everhold.schema.operations import Op, Where

T0 = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ({"kind": "fact"}, [Where("kind", Op.EQ, "fact")]),
        ({"kind": None}, [Where("kind", Op.EQ, None)]),
        ({"kind": ["fact", "plan"]}, [Where("kind", Op.IN, ["fact", "plan"])]),
        ({"kind": ("fact",)}, [Where("kind", Op.IN, ["fact"])]),
        ({"revision": {">=": 1, "<": 3}}, [Where("revision", Op.GE, 1), Where("revision", Op.LT, 3)]),
        ({"revision": {"!=": None}}, [Where("revision", Op.NE, None)]),
        ({"text": {"contains": "tea"}}, [Where("text", Op.CONTAINS, "tea")]),
        ({"created_at": {">": T0}}, [Where("created_at", Op.GT, T0)]),
        ({"priority": 10}, [Where("importance", Op.EQ, 1.0)]),
        ({"priority": {"<=": 1}}, [Where("importance", Op.LE, 0.0)]),
        ({"priority": [1, 10]}, [Where("importance", Op.IN, [0.0, 1.0])]),
        ({"priority": None}, [Where("importance", Op.EQ, None)]),
        ({"metadata.a.b": 5}, [Where("metadata.a.b", Op.EQ, 5)]),
        ({"metadata.a": {">": 5}}, [Where("metadata.a", Op.GT, 5)]),
        ({"metadata.a": {"b": 5}}, [Where("metadata.a", Op.EQ, {"b": 5})]),
        ({"metadata": {"a": 5}}, [Where("metadata", Op.EQ, {"a": 5})]),
        ({"metadata": {}}, [Where("metadata", Op.EQ, {})]),
        ({"aliases": {"contains": "x"}}, [Where("aliases", Op.CONTAINS, "x")]),
        ({"pinned": True, "revision": 2}, [Where("pinned", Op.EQ, True), Where("revision", Op.EQ, 2)]),
        ({}, []),
    ],
)
def test_filters_become_conditions(where: dict[str, object], conditions: list[Where]) -> None:
    assert list(make_filter(where).conditions) == conditions


def test_all_fields_can_be_combined() -> None:
    memory_filter = make_filter(
        {"tags": ["a", "b"], "tag": "c", "score": 1}, kind="user_fact", tags="d", after=T0, before=T0
    )
    assert memory_filter == Filter((Where("score", Op.EQ, 1),), ("fact",), ("d", "a", "b", "c"), T0, T0)
    assert [(condition.field, condition.op) for condition in memory_filter.all_conditions] == [
        ("score", Op.EQ), ("kind", Op.IN), ("created_at", Op.GE), ("created_at", Op.LT),
    ]  # fmt: skip


def test_an_empty_filter_is_false() -> None:
    assert not make_filter()
    assert not make_filter({}, kind=[], tags=())
    for arguments in ({"kind": "fact"}, {"tags": "a"}, {"after": T0}, {"before": T0}, {"where": {"revision": 0}}):
        assert make_filter(**arguments)


@pytest.mark.parametrize("name", Memory.model_fields)
def test_a_filter_may_name_every_field(name: str) -> None:
    assert make_filter({name: None}).conditions == (Where(name, Op.EQ, None),)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("knd", "'kind'"), ("importanc", "'importance'"), ("create_at", "'created_at'"), ("prio", "'priority'")],
)
def test_an_unknown_field_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownField, match=f"no field '{name}' to filter by; did you mean {nearest}"):
        make_filter({name: 1})


def test_an_unknown_field_that_is_near_to_none_lists_all() -> None:
    with pytest.raises(UnknownField, match=r"; choose from .*access_count.*kind"):
        make_filter({"zzzzzzzz": 1})


def test_include_takes_names_of_reaches() -> None:
    assert check_include("organization") == ("organization",)
    assert check_include(["user", "project"]) == ("user", "project")
    assert check_include(()) == ()
    with pytest.raises(InvalidInput, match="include 'org' is not a reach; did you mean 'organization'"):
        check_include("org")
