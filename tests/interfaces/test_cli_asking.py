"""Asking uploaded data on the command line."""

from pathlib import Path

import pytest

from tests.interfaces.conftest import Run

PROJECT = ("--project", "shop")


@pytest.fixture
def shop(run: Run, tmp_path: Path) -> Run:
    (tmp_path / "orders.csv").write_text("order_id,channel,amount\n1,web,20\n2,web,35\n3,store,15\n")
    run("upload", str(tmp_path / "orders.csv"), *PROJECT)
    return run


def test_an_answer_is_shown_with_its_statement(shop: Run, tmp_path: Path) -> None:
    shown = shop("ask", "number of orders per channel", *PROJECT, "--csv", str(tmp_path / "rows.csv"))
    assert shown.code == 0
    assert "read as:" in shown.out
    assert "GROUP BY" in shown.out
    assert "store" in (tmp_path / "rows.csv").read_text()
    document = shop("ask", "What is the total amount?", *PROJECT, "--json").document
    assert (document["rows"], document["sentence"][:5]) == ([[70]], "Total")


def test_a_chart_is_drawn_to_a_file(shop: Run, tmp_path: Path) -> None:
    shop("ask", "number of orders per channel", *PROJECT, "--chart", str(tmp_path / "channels.svg"))
    assert (tmp_path / "channels.svg").read_text().startswith("<svg")
    refused = shop("ask", "number of orders per channel", *PROJECT, "--chart", str(tmp_path / "channels.gif"))
    assert (refused.code, "name a .png or .svg" in refused.err) == (2, True)


def test_statements_are_guarded(shop: Run) -> None:
    assert shop("sql", "SELECT count(*) FROM orders", *PROJECT, "--json").document["rows"] == [[3]]
    refused = shop("sql", "DROP TABLE orders", *PROJECT)
    assert (refused.code, "only queries are allowed" in refused.err) == (2, True)
    assert "this scope has no tables" in shop("ask", "How many orders?", "--project", "other").err
