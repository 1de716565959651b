"""Answers: the sentence for each shape of a result, the CSV, and HTML that runs no code."""

import csv
import io
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from everhold.adapters.parquet_files import write_parquet
from everhold.ask.answer import Answer, make_answer
from everhold.ask.charts import ChartKind
from everhold.errors import InvalidInput
from everhold.ports.result_table import AnswerColumn, ResultTable


def make_table(names: list[str], rows: list[list[Any]], *, is_truncated: bool = False) -> ResultTable:
    return ResultTable(tuple(map(AnswerColumn, names)), tuple(map(tuple, rows)), is_truncated)


def answer_question(question: str, names: list[str], rows: list[list[Any]]) -> Answer:
    return make_answer(question, make_table(names, rows), "SELECT 1", question)


MONTHS = [date(2025, month, 1) for month in range(1, 5)]
TREND = (
    "Orders rose from 10 in Jan 2025 to 15 in Apr 2025 (+50.0%); "
    "the highest was in Mar 2025 (20), the lowest in Feb 2025 (5)."
)


@pytest.mark.parametrize(
    ("question", "names", "rows", "sentence"),
    [
        ("how many?", ["count_star()"], [[1234]], "Count: 1,234."),
        ("which?", ["name"], [["Tent"]], "Tent."),
        ("total?", ["sum(revenue)"], [[None]], "There is no total revenue: no row has a value."),
        ("anything?", ["name"], [], "No rows match."),
        ("revenue of tents", ["name", "revenue"], [["Tent", 12.5]], "Tent has revenue 12.50."),
        ("which sold most?", ["name", "revenue"], [["Tent", 12.5]], "Tent, with revenue 12.50."),
        ("newest?", ["title", "name"], [["Fire", "Ana"]], "Title: Fire; name: Ana."),
        (
            "top 4 by orders",
            ["name", "orders"],
            [["a", 9], ["b", 7], ["c", 5], ["d", 1]],
            "Ranked by orders: a (9), b (7), c (5) and 1 more.",
        ),
        (
            "orders by channel",
            ["channel", "orders"],
            [["web", 1000], ["phone", 5], ["store", 30]],
            "Orders by channel: web 1,000, store 30 and phone 5; 1,035 in total.",
        ),
        (
            "average price by category",
            ["category", "avg(price)"],
            [["tents", 9.5], ["mugs", 2.25]],
            "Average price by category: tents 9.50 and mugs 2.25.",
        ),
        (
            "orders by day",
            ["weekday", "orders"],
            [["Mon", 4], ["Tue", 2], ["Wed", 7], ["Thu", 1]],
            "Orders by weekday, 4 rows: from 1 (Thu) to 7 (Wed); 14 in total.",
        ),
        (
            "share by category",
            ["category", "share"],
            [["mugs", 0.25], ["tents", 0.75]],
            "Share by category: tents 75.0 % and mugs 25.0 %.",
        ),
        (
            "orders by month",
            ["month", "orders"],
            [[MONTHS[0], 10], [MONTHS[1], 5], [MONTHS[2], 20], [MONTHS[3], 15]],
            TREND,
        ),
        (
            "orders by month and channel",
            ["month", "channel", "orders"],
            [[month, channel, month.month] for month in MONTHS for channel in ("web", "store")],
            "Orders by month and channel, 8 rows: from 1 (Jan 2025, store) to 4 (Apr 2025, web); 20 in total.",
        ),
        ("delays", ["delay"], [[1], [2], [6]], "3 rows: delay from 1 to 6, 3 on average."),
        ("who?", ["first_name", "last_name"], [["Ana", "Paz"], ["Leo", "Reis"]], "2 rows: Ana Paz and Leo Reis."),
    ],
)
def test_the_sentence_has_the_figures(question: str, names: list[str], rows: list[list[Any]], sentence: str) -> None:
    assert str(answer_question(question, names, rows)) == sentence


def test_a_sentence_about_part_of_a_result_says_so() -> None:
    table = make_table(["delay"], [[1], [2]], is_truncated=True)
    assert make_answer("delays", table, "", "delays").sentence == "2 or more rows: delay from 1 to 2, 1.50 on average."


def test_an_answer_has_all_parts_and_cannot_be_changed() -> None:
    result = make_answer(
        "orders by channel?",
        make_table(["channel", "orders"], [["web", 5], ["store", 3]]),
        "SELECT channel, count(*)",
        "number of orders for each channel",
        assumptions=["cancelled orders count"],
        alternatives=["number of channels"],
        confidence=0.8,
    )
    assert result.chart is not None
    assert result.chart.title == "number of orders for each channel"
    assert result.specification is not None
    assert "web" in result.sketch()
    assert result.charts[1].kind == ChartKind.BARS
    with pytest.raises(FrozenInstanceError):
        result.sql = "DROP TABLE x"  # type: ignore[misc]


def test_an_answer_without_a_chart_has_no_picture() -> None:
    without_chart = answer_question("who?", ["name"], [["Ana"], ["Leo"]])
    assert without_chart.chart is None
    assert without_chart.specification is None
    assert without_chart.sketch() == ""


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_runs_no_cell_of_the_csv_as_a_formula(start: str) -> None:
    text = f"{start}cmd|' /C calc'!A0"
    list_answer = answer_question("list", [text, "number"], [[text, -5], ["plain", -0.5], [None, Decimal("-1.50")]])
    rows = list(csv.reader(io.StringIO(list_answer.to_csv(), newline="")))
    assert rows == [[f"'{text}", "number"], [f"'{text}", "-5"], ["plain", "-0.5"], ["", "-1.50"]]


def test_csv_writes_every_type() -> None:
    moment = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    list_answer = answer_question("list", ["a", "b", "c", "d"], [[True, b"\x01\xff", date(2025, 1, 2), moment]])
    assert list_answer.to_csv().splitlines()[1] == "true,01ff,2025-01-02,2025-01-02 03:04:05+00:00"


def test_html_is_escaped() -> None:
    evil = "<script>alert('x')</script>"
    result = make_answer(evil, make_table([evil, "n"], [[evil, 1]] * 60), evil, evil, assumptions=[evil])
    html = result._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 50 + 1 + 1 + 2 + 3  # rows, header, SQL, notes, sentence
    assert "10 more rows" in html


def test_parquet_keeps_types_and_missing_values(tmp_path: Path) -> None:
    moment = datetime.fromisoformat("2025-01-02T03:04:05")
    names = ["name", "NAME", "count", "price", "day", "at", "is_open", "raw", "mixed", "huge", "nothing"]
    first = ["Ana", "x", 1, Decimal("1.5"), date(2025, 1, 2), moment, True, b"\x01", 1, 2**70, None]
    second = [None, "y", None, 2.5, None, None, None, None, "two", 1, None]
    path = tmp_path / "it's a result.parquet"
    write_parquet(make_table(names, [first, second]), path)
    result = duckdb.execute("FROM read_parquet(?)", [str(path)])
    assert [column[0] for column in result.description or []][:3] == ["name", "NAME_2", "count"]
    rows = result.fetchall()
    assert rows[0] == ("Ana", "x", 1, 1.5, date(2025, 1, 2), moment, True, b"\x01", "1", float(2**70), None)
    assert rows[1] == (None, "y", None, 2.5, None, None, None, None, "two", 1.0, None)


def test_parquet_is_written_for_many_rows_and_for_none(tmp_path: Path) -> None:
    write_parquet(make_table(["n"], [[number] for number in range(45_000)]), tmp_path / "many.parquet")
    assert duckdb.sql(f"SELECT count(*), sum(n) FROM '{tmp_path}/many.parquet'").fetchall() == [(45_000, 1012477500)]
    write_parquet(make_table(["n", "m"], []), tmp_path / "none.parquet")
    assert duckdb.sql(f"FROM '{tmp_path}/none.parquet'").fetchall() == []


def test_parquet_replaces_a_file_only_with_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "result.parquet"
    path.write_text("mine")
    with pytest.raises(InvalidInput):
        write_parquet(make_table(["n"], [[1]]), path)
    assert path.read_text() == "mine"
    write_parquet(make_table(["n"], [[1]]), path, overwrite=True)
    assert duckdb.sql(f"FROM '{path}'").fetchall() == [(1,)]
