"""The hints for names and arguments of other libraries, and for an engine that is not open."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everhold import AsyncEverhold, Everhold, View
from everhold.errors import InvalidInput, UnknownField


@pytest.fixture(scope="module")
def engine() -> Any:
    with Everhold.open("memory://") as engine:
        yield engine


@pytest.mark.parametrize(
    ("construct", "remedy"),
    [
        (lambda: Everhold("notes.db"), "use Everhold.open('notes.db')"),  # type: ignore[arg-type]
        (lambda: Everhold(Path("notes.db")), "use Everhold.open('notes.db')"),  # type: ignore[arg-type]
        (Everhold, "use Everhold.open()"),
        (lambda: AsyncEverhold("notes.db"), "use AsyncEverhold.open('notes.db')"),  # type: ignore[arg-type]
    ],
)
def test_the_error_of_a_constructor_names_open(construct: Callable[[], object], remedy: str) -> None:
    with pytest.raises(InvalidInput, match="opens no store") as raised:
        construct()
    assert remedy in str(raised.value)


@pytest.mark.parametrize(
    ("access", "hint"),
    [
        (lambda engine, _: engine.remember, "call it on a view: engine.scope(user=…).remember(…)"),
        (lambda engine, _: engine.search, "call it on a view: engine.scope(user=…).recall(…)"),
        (lambda engine, _: engine.nonsense, "'Everhold' has no 'nonsense'"),
        (lambda _, view: view.delete, "'View' has no 'delete'; use forget"),
        (lambda _, view: view.nonsense, "'View' has no 'nonsense'"),
        (lambda _, __: AsyncEverhold.open().scope, "engine = await AsyncEverhold.open(…)"),
    ],
)
def test_an_unknown_attribute_is_answered_with_the_right_one(
    engine: Everhold, access: Callable[[Any, Any], object], hint: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        access(engine, engine.scope(user="alice"))
    assert hint in str(raised.value)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda view: view.remember("a", user="bob"), "name it in the scope: scope(user=…)"),
        (lambda view: view.recall("a", session_id="s1"), "name it in the scope: scope(session=…)"),
        (lambda view: view.remember("a", ttl_seconds=60), "use expires_at"),
        (lambda view: view.say("a", ttl=60), "messages do not expire, so leave it out"),
    ],
)
def test_an_argument_of_another_library_is_answered_with_the_right_one(
    engine: Everhold, call: Callable[[View], object], remedy: str
) -> None:
    with pytest.raises(UnknownField) as raised:
        call(engine.scope(user="alice"))
    assert remedy in str(raised.value)
