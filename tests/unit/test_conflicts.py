"""The relation of a newer statement to an older one, and the detection of texts with the same meaning."""

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from everhold.facts.conflicts import compare_statements, is_near_duplicate
from everhold.facts.reading import read_statements
from everhold.facts.statement import Statement

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2023, 6, 14, 10, 0, tzinfo=UTC)
# Pairs of texts and the relation of the second to the first; `python -m benchmarks.merges` runs the engine on them too.
LABELLED = json.loads((Path(__file__).parents[1] / "fixtures" / "conflicts.json").read_text("utf-8"))


def read_first_statement(text: str) -> Statement:
    statements = read_statements(text, speaker="Alice", now=NOW, zone=BERLIN)
    assert statements, f"nothing is stated by: {text}"
    return statements[0]


@pytest.mark.parametrize(("old", "new", "expected"), LABELLED["relations"])
def test_a_newer_statement_repeats_replaces_or_complements_an_older_one(old: str, new: str, expected: str) -> None:
    assert compare_statements(read_first_statement(old), read_first_statement(new)) == expected


def test_a_divorce_ends_a_marriage() -> None:
    married = read_statements("I'm married to Ben.", speaker="Alice", now=NOW, zone=BERLIN)[1]
    assert married.attribute == "married_to"
    assert compare_statements(married, read_first_statement("We got divorced in 2023.")) == "replaces"
    assert compare_statements(married, read_first_statement("I'm engaged.")) == "compatible"


@pytest.mark.parametrize(("first", "second"), LABELLED["same"])
def test_texts_that_say_the_same_are_near_duplicates(first: str, second: str) -> None:
    assert is_near_duplicate(first, second, 0.96)
    assert is_near_duplicate(second, first, 0.96)


@pytest.mark.parametrize(("first", "second", "_"), LABELLED["different"])
def test_texts_that_differ_in_what_they_say_are_never_merged(first: str, second: str, _: str) -> None:
    assert not is_near_duplicate(first, second, 0.99)
    assert not is_near_duplicate(second, first, 0.99)


def test_the_same_words_with_unlike_vectors_are_not_merged() -> None:
    assert not is_near_duplicate("Anna really likes tea", "Anna likes tea", 0.91)
