"""Measuring questions about data from the command line, on a shop and a variant of it."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.interfaces.conftest import Run
from tests.unit.ask_shop import make_shop

QUESTIONS = [
    ("How many customers are there?", "SELECT count(*) FROM customers"),
    # Right on the original database only, because the variant has a second customer from Japan.
    ("Show the names of customers from Japan.", "SELECT name FROM customers WHERE age = 45"),
    ("Show the names of customers from France.", "SELECT title FROM products"),
]


@pytest.fixture
def databases(tmp_path: Path) -> Path:
    folder = tmp_path / "databases" / "shop"
    folder.mkdir(parents=True)
    make_shop(folder / "shop.sqlite")
    variant = sqlite3.connect(make_shop(folder / "shop_variant.sqlite"))
    variant.execute("INSERT INTO customers VALUES (9, 'Fay Ono', 60, 'Kyoto', 'Japan')")
    variant.commit()
    variant.close()
    entries = [{"db_id": "shop", "question": text, "query": gold} for text, gold in QUESTIONS]
    (tmp_path / "questions.json").write_text(json.dumps(entries))
    return folder.parent


def test_execution_accuracy_and_test_suite_accuracy_differ(run: Run, databases: Path) -> None:
    figures = run("eval", "sql", str(databases.parent / "questions.json"), str(databases), "--json").document
    assert (figures["questions"], figures["execution"], figures["test_suite"]) == (3, 0.6667, 0.3333)
    assert figures["single_table"]["questions"] == 3
    assert figures["by_difficulty"]["easy"]["questions"] == 3
    assert 0 <= figures["coverage_at_90"] <= 1


def test_failures_are_listed(run: Run, databases: Path) -> None:
    arguments = ("eval", "sql", str(databases.parent / "questions.json"), str(databases), "--failures")
    failures = run(*arguments, "--json").document["failures"]
    assert [failure["question"] for failure in failures] == [text for text, _ in QUESTIONS[1:]]
    assert "made:     SELECT" in run(*arguments).out


def test_weights_are_printed(run: Run, databases: Path) -> None:
    fitted = run("eval", "fit-sql", str(databases.parent / "questions.json"), str(databases), "--json").document
    assert fitted["questions"] == 3
    assert "base" in fitted["weights"]


def test_a_missing_database_is_named(run: Run, databases: Path) -> None:
    result = run("eval", "sql", str(databases.parent / "questions.json"), str(databases.parent / "databases" / "shop"))
    assert result.code != 0
    assert "no database" in result.err


def test_a_file_of_another_shape_is_refused(run: Run, databases: Path) -> None:
    (databases.parent / "questions.json").write_text('{"a": 1}')
    result = run("eval", "sql", str(databases.parent / "questions.json"), str(databases))
    assert result.code != 0
    assert "is not a list of questions" in result.err
