"""Errors have a fact, a value and a remedy, and each interface words the remedy for its users."""

import pickle
from collections import OrderedDict
from typing import Any

import pytest

from everhold.errors import (
    AlreadyExists,
    Argument,
    EverholdError,
    FileError,
    InvalidInput,
    MissingExtra,
    NotFound,
    Remedy,
    StaleVersion,
    StoreBusy,
    Verb,
    spell_for_library,
)
from everhold.interfaces.cli.failures import spell_for_terminal


def test_the_fact_and_the_remedy_make_one_sentence() -> None:
    error = InvalidInput("k is 0", value=0, remedy="pass 1 to 1000")
    assert (error.fact, error.value, str(error.remedy)) == ("k is 0", 0, "pass 1 to 1000")
    assert str(error) == "k is 0; pass 1 to 1000"
    assert str(NotFound("no memory")) == "no memory"
    assert str(StoreBusy("others write")) == "others write; try again"


@pytest.mark.parametrize(
    ("remedy", "library", "terminal"),
    [
        (Remedy("pass {}", Argument("overwrite", True)), "pass overwrite=True", "pass --overwrite"),
        (Remedy("retry with {}", Argument("expected_version", 3)), "retry with expected_version=3",
         "retry with --expected-version 3"),
        (Remedy("leave out {}", Argument("organization")), "leave out organization", "leave out --org"),
        (Remedy("{} shows {{", Verb("why_not")), "why_not() shows {", "`everhold why-not` shows {"),
        (Remedy("use {braces}"), "use {braces}", "use {braces}"),
    ],
)  # fmt: skip
def test_a_remedy_is_spelled_for_each_interface(remedy: Remedy, library: str, terminal: str) -> None:
    error = InvalidInput("it failed", remedy=remedy)
    assert error.render(spell_for_library) == str(error) == f"it failed; {library}"
    assert error.render(spell_for_terminal) == f"it failed; {terminal}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (0.5, 0.5),
        ("short", "short"),
        ("x" * 1000, "x" * 60 + "… of length 1000"),
        (1 << 500, "a whole number of 501 bits"),
        (["a"], "['a']"),
        (object(), "a object"),
        (OrderedDict(a=1), "a OrderedDict"),
    ],
)
def test_the_value_of_an_error_is_plain_and_short(value: Any, expected: Any) -> None:
    assert EverholdError("it failed", value=value).value == expected


def test_a_sentence_is_split_at_its_last_semicolon() -> None:
    error = InvalidInput.from_sentence("tag 'a; b' is too long; use a shorter one", "a; b")
    assert (error.fact, error.value, str(error.remedy)) == ("tag 'a; b' is too long", "a; b", "use a shorter one")
    assert InvalidInput.from_sentence("it failed").fact == "it failed"


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("k is 0", value=0, remedy=Remedy("pass {}", Argument("k", 1))),
        AlreadyExists("taken", table="users", rule="key"),
        StaleVersion("changed", current_version=3),
        FileError("full", code=28, remedy="free some disk"),
        MissingExtra("no driver", remedy="install it"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_being_sent_to_another_process(error: EverholdError) -> None:
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert str(received) == str(error)
    for name in ("value", "table", "current_version"):
        assert getattr(received, name, None) == getattr(error, name, None)
