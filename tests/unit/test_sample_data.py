"""The sample data of `examples/`: the same at every run, and every question about it has an answer."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import duckdb
import pytest

from everhold.adapters.vl_convert.child import draw_picture
from everhold.ask.answer import make_answer
from everhold.ask.charts import ChartKind
from everhold.ports.result_table import AnswerColumn, ResultTable
from examples.make_sample_data import write_all

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCUMENT = json.loads((EXAMPLES / "sample_questions.json").read_text(encoding="utf-8"))
QUESTIONS = DOCUMENT["questions"]
SHEETS = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
EXCEL_EPOCH = datetime.fromisoformat("1899-12-30")

Rows = list[tuple[Any, ...]]
RunQuery = Callable[[str], ResultTable]
# How ten of the questions are drawn.
CHARTS = {
    "shop-01": ChartKind.NUMBER,
    "shop-03": ChartKind.LINE,
    "shop-05": ChartKind.BARS,
    "shop-07": ChartKind.SHARE_BAR,
    "shop-08": ChartKind.COLUMNS,
    "shop-16": ChartKind.LINES,
    "shop-18": ChartKind.CHANGES,
    "shop-19": ChartKind.AREA,
    "flights-10": ChartKind.HISTOGRAM,
    "music-07": ChartKind.LINE,
}


def read_sheets(path: Path) -> Iterator[tuple[str, Rows]]:
    """Yield the name and the rows of each sheet of a workbook."""
    with ZipFile(path) as archive:
        workbook = ElementTree.fromstring(archive.read("xl/workbook.xml"))
        for number, sheet in enumerate(workbook.iter(f"{SHEETS}sheet"), start=1):
            content = ElementTree.fromstring(archive.read(f"xl/worksheets/sheet{number}.xml"))
            yield sheet.attrib["name"], [tuple(map(read_cell, row)) for row in content.iter(f"{SHEETS}row")]


def read_cell(cell: ElementTree.Element) -> Any:
    text = cell.find(f"{SHEETS}is/{SHEETS}t")
    if text is not None:
        return text.text
    number = cell.find(f"{SHEETS}v")
    if number is None:
        return None
    if cell.get("s") == "1":
        return EXCEL_EPOCH + timedelta(seconds=round(float(number.text or "") * 86400))
    return float(number.text or "")


def read_result(cursor: Any) -> ResultTable:
    columns = tuple(AnswerColumn(description[0]) for description in cursor.description)
    return ResultTable(columns, tuple(map(tuple, cursor.fetchall())))


def open_shop(folder: Path) -> RunQuery:
    connection = duckdb.connect()
    for path in sorted((folder / "shop").glob("*.csv")):
        connection.execute(f"CREATE TABLE {path.stem} AS FROM read_csv('{path}')")
    return lambda sql: read_result(connection.execute(sql))


def open_flights(folder: Path) -> RunQuery:
    connection = duckdb.connect()
    types = {str: "VARCHAR", float: "DOUBLE", datetime: "TIMESTAMP"}
    for name, (header, *rows) in read_sheets(folder / "flights.xlsx"):
        columns = ", ".join(f"{column} {types[type(value)]}" for column, value in zip(header, rows[0], strict=True))
        connection.execute(f"CREATE TABLE {name} ({columns})")
        cells = [list(column) for column in zip(*rows, strict=True)]
        connection.execute(f"INSERT INTO {name} SELECT {', '.join('unnest(?)' for _ in header)}", cells)
    return lambda sql: read_result(connection.execute(sql))


def open_music(folder: Path) -> RunQuery:
    connection = sqlite3.connect(folder / "music.sqlite")
    return lambda sql: read_result(connection.execute(sql))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    write_all(folder)
    return folder


@pytest.fixture(scope="module")
def sources(folder: Path) -> dict[str, RunQuery]:
    return {"shop": open_shop(folder), "flights": open_flights(folder), "music": open_music(folder)}


def test_every_run_writes_the_same_files(folder: Path, tmp_path: Path) -> None:
    write_all(tmp_path)
    for path in folder.rglob("*.*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / path.relative_to(folder)).read_bytes(), path


def test_there_are_forty_questions_about_three_sources() -> None:
    assert len({question["question"] for question in QUESTIONS}) == len(QUESTIONS) == 40
    assert {question["source"] for question in QUESTIONS} == DOCUMENT["sources"].keys() == {"shop", "flights", "music"}
    ids = [question["id"] for question in QUESTIONS]
    assert all(
        ids.index(question["after"]) < ids.index(question["id"]) for question in QUESTIONS if "after" in question
    )


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: str(question["id"]))
def test_the_expected_result_is_not_trivial(question: dict[str, Any], sources: dict[str, RunQuery]) -> None:
    rows = sources[question["source"]](question["sql"]).rows
    assert 1 <= len(rows) <= 2000
    assert any(cell not in (None, 0, "") for row in rows for cell in row)
    assert len(set(rows)) > 1 or len(rows) == 1


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if "LIMIT" in q["sql"]], ids=lambda question: str(question["id"])
)
def test_no_tie_at_a_limit_makes_the_answer_a_matter_of_luck(
    question: dict[str, Any], sources: dict[str, RunQuery]
) -> None:
    """The last returned row and the first omitted row differ in the value by which they are sorted."""
    start, _, limit = question["sql"].rpartition(" LIMIT ")
    select, _, order = start.rpartition(" ORDER BY ")
    sorted_by = order.split(",")[0].removesuffix(" DESC")
    select_with_order = select.replace(" FROM ", f", {sorted_by} AS sorted_by FROM ", 1)
    rows = sources[question["source"]](f"{select_with_order} ORDER BY {order}").rows
    values = [row[-1] for row in rows]
    assert values[int(limit) - 1] != values[int(limit)]


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if q["id"] in CHARTS], ids=lambda question: str(question["id"])
)
def test_ten_questions_have_their_charts(question: dict[str, Any], sources: dict[str, RunQuery]) -> None:
    table = sources[question["source"]](question["sql"])
    answer = make_answer(question["question"], table, question["sql"], question["question"])
    assert answer.charts[0].kind == CHARTS[question["id"]]
    assert answer.specification is not None
    assert draw_picture("png", 1.0, json.dumps(answer.specification)).startswith(b"\x89PNG")
    assert answer.sketch()
