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
    result = shop("ask", "number of orders per channel", *PROJECT, "--csv", str(tmp_path / "rows.csv"))
    assert result.code == 0
    assert "read as:" in result.out
    assert "GROUP BY" in result.out
    assert "store" in (tmp_path / "rows.csv").read_text()
    document = shop("ask", "What is the total amount?", *PROJECT, "--json").document
    assert (document["rows"], document["sentence"][:5]) == ([[70]], "Total")


def test_a_chart_is_drawn_to_a_file(shop: Run, tmp_path: Path) -> None:
    shop("ask", "number of orders per channel", *PROJECT, "--chart", str(tmp_path / "channels.svg"))
    assert (tmp_path / "channels.svg").read_text().startswith("<svg")
    result = shop("ask", "number of orders per channel", *PROJECT, "--chart", str(tmp_path / "channels.gif"))
    assert (result.code, "name a .png or .svg" in result.err) == (2, True)


def test_amounts_have_separators_and_years_have_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "homes.csv").write_text("home_id,year_built,price\n10001,1987,1250000\n10002,2004,99500\n")
    run("upload", str(tmp_path / "homes.csv"), *PROJECT)
    output = run("ask", "show home id, year built and price of homes", *PROJECT).out
    assert "1,250,000" in output
    assert "10001" in output
    assert "1987" in output


def test_statements_are_guarded(shop: Run) -> None:
    assert shop("sql", "SELECT count(*) FROM orders", *PROJECT, "--json").document["rows"] == [[3]]
    result = shop("sql", "DROP TABLE orders", *PROJECT)
    assert (result.code, "only queries are allowed" in result.err) == (2, True)
    assert "this scope has no tables" in shop("ask", "How many orders?", "--project", "other").err


@pytest.fixture
def prices(run: Run, tmp_path: Path) -> Run:
    (tmp_path / "sales.csv").write_text("sale_id,net_price,gross_price\n1,10,12\n2,20,24\n")
    run("upload", str(tmp_path / "sales.csv"), *PROJECT)
    return run


def test_readings_are_offered_and_chosen(prices: Run) -> None:
    choices = prices("ask", "What is the total price?", *PROJECT)
    assert choices.code == 0
    assert "Does 'price' mean sales.net_price or sales.gross_price?" in choices.out.replace("\n", " ")
    assert "2. the total gross price" in choices.out
    document = prices("ask", "What is the total price?", *PROJECT, "--json").document
    assert document["status"] == "clarify"
    assert [choice["number"] for choice in document["choices"]] == [1, 2]
    chosen = prices("ask", "What is the total price?", "--choice", "2", *PROJECT, "--json").document
    assert (chosen["rows"], chosen["choices"]) == ([[36]], [])
    result = prices("ask", "What is the total price?", "--choice", "3", *PROJECT)
    assert (result.code, "there is no choice 3; pass a number from 1 to 2" in result.err) == (2, True)


def test_a_shell_takes_the_number_of_a_choice(prices: Run) -> None:
    typed = "/ask What is the total price?\n2\n/ask and with net price over 15?\n2\n"
    answers = prices("shell", *PROJECT, "--json", typed=typed).document["answers"]
    assert [answer["answer"]["status"] for answer in answers[:2]] == ["clarify", "answered with assumptions"]
    assert [answer["answer"]["rows"] for answer in answers[1:3]] == [[[36]], [[24]]]
    # No choice is open any more, so the number is stored as a sentence.
    assert "status" not in answers[3].get("answer", {})


def test_a_question_that_is_not_understood_exits_with_one(shop: Run, tmp_path: Path) -> None:
    result = shop("ask", "What is the churn of orders?", *PROJECT, "--chart", str(tmp_path / "x.png"))
    assert result.code == 1
    assert "'churn' is not a column, table or value here" in result.out
    assert not (tmp_path / "x.png").exists()
    document = shop("ask", "churn per channel", *PROJECT, "--json").document
    assert (document["status"], document["sql"], document["rows"]) == ("cannot", None, [])
    assert document["not_understood"][0]["text"] == "churn"


def test_a_question_may_be_typed_without_quotes(shop: Run) -> None:
    assert shop("ask", "how", "many", "orders", *PROJECT, "--json").document["rows"] == [[3]]


def test_a_chart_that_cannot_be_drawn_is_reported(shop: Run, tmp_path: Path) -> None:
    result = shop("ask", "Show all details of orders as a table", *PROJECT, "--chart", str(tmp_path / "x.png"))
    assert (result.code, "because no chart fits" in result.out.replace("\n", " ")) == (1, True)
    missing = shop("ask", "number of orders per channel", *PROJECT, "--chart", str(tmp_path / "none" / "x.png"))
    assert (missing.code, "there is no folder" in missing.err) == (2, True)
