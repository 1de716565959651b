"""In a project with many tables, the right table is found, and questions are read as if it were the only one."""

import sqlite3
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from benchmarks.ask_tables import SampleTable, list_tables, make_question, write_tables
from everhold import Everhold, View
from everhold.ask.asking import read_in_scope
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.data_deps import make_data_deps
from tests.engines import get_parts
from tests.exhaustive import choose_size

pytestmark = pytest.mark.xdist_group("many tables")
# `python -m benchmarks.ask` asks among a thousand, too.
TABLES = list_tables(choose_size(299, 999))
ASKED_TABLES = TABLES[3 :: len(TABLES) // 12]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everhold]:
    folder = tmp_path_factory.mktemp("many")
    path = folder / "many.sqlite"
    write_tables(path, TABLES, rows=12)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE money_back(id INTEGER PRIMARY KEY, refund_amount REAL, reason TEXT)")
        connection.execute("INSERT INTO money_back VALUES (1, 5.0, 'damaged'), (2, 6.0, 'late')")
    connection.close()
    uploads = {"seconds": 120}  # other tests run beside this one
    with Everhold.open(folder / "many.db", embedder=FakeEmbedder(), uploads=uploads) as engine:
        [file] = engine.scope(project="many").upload(str(path))
        assert len(file.tables) == len(TABLES) + 1
        yield engine


def make_sql(engine: Everhold, view: View, question: str) -> str:
    """Return the SQL of the best reading of a question; empty if there is none."""
    deps = make_data_deps(get_parts(engine))
    best = read_in_scope(deps, view.scope, question, date(2025, 1, 1), view._find_question_tables).readings.best
    return "" if best is None else best.sql


def make_sql_alone(engine: Everhold, table: SampleTable, question: str, folder: Path) -> str:
    write_tables(folder / f"{table.name}.sqlite", [table], rows=12)
    view = engine.scope(project=f"only-{table.name}")
    view.upload(str(folder / f"{table.name}.sqlite"))
    return make_sql(engine, view, question)


def test_the_table_with_refunds_is_found_among_many(engine: Everhold) -> None:
    view = engine.scope(project="many")
    assert view.find_tables("which table has refunds?")[0].table.table_name == "money_back"
    assert view.find_tables("why did people send it back: damaged")[0].table.table_name == "money_back"


def test_questions_are_read_as_if_their_table_were_alone(engine: Everhold, tmp_path: Path) -> None:
    view = engine.scope(project="many")
    questions = [make_question(table, number) for number, table in enumerate(ASKED_TABLES)]
    sql_alone = [
        make_sql_alone(engine, table, question, tmp_path)
        for table, question in zip(ASKED_TABLES, questions, strict=True)
    ]
    sql_among_many = [make_sql(engine, view, question) for question in questions]
    equal = sum(first == second != "" for first, second in zip(sql_alone, sql_among_many, strict=True))
    assert equal >= 0.9 * len(ASKED_TABLES), list(zip(questions, sql_alone, sql_among_many, strict=True))


def test_a_question_among_many_tables_is_answered(engine: Everhold) -> None:
    answer = engine.scope(project="many").ask("How many money back rows have reason late?")
    assert answer.table.rows == ((1,),)
