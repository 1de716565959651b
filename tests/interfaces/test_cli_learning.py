"""Verdicts on answers, and the evaluation of learning, on the command line."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.interfaces.conftest import Run

PROJECT = ("--project", "shop")
RIGHT_SQL = "SELECT sum(amount) FROM orders WHERE channel = 'web'"


@pytest.fixture
def shop(run: Run, tmp_path: Path) -> Run:
    (tmp_path / "orders.csv").write_text("order_id,channel,amount\n1,web,20\n2,web,35\n3,store,15\n")
    run("upload", str(tmp_path / "orders.csv"), *PROJECT)
    return run


def test_answers_are_judged(shop: Run) -> None:
    query = shop("ask", "moolah from web", *PROJECT, "--json").document["query"]
    result = shop("ask", "correct", query, "--sql", RIGHT_SQL.replace("web", "wab"), *PROJECT)
    assert "note: no row has 'wab' as orders.channel" in result.out
    learned = shop("ask", "correct", query, "--sql", RIGHT_SQL, *PROJECT, "--json").document
    assert (learned["feedback"], learned["learned"][0]["kind"]) == ("corrected", "pattern")
    answer = shop("ask", "moolah from store", *PROJECT, "--json").document
    assert answer["rows"] == [[15]]
    assert shop("ask", "confirm", answer["query"], *PROJECT).out.startswith("confirmed: moolah from store")
    result = shop("ask", "learned", *PROJECT)
    assert "pattern: moolah from <channel>" in result.out
    assert "2 right, 0 wrong, corrected" in result.out.replace("\n", " ")
    for item in shop("ask", "learned", *PROJECT, "--json").document["learned"]:
        assert shop("ask", "forget-learned", item["id"], *PROJECT).code == 0
    assert shop("ask", "learned", *PROJECT).out.strip() == "nothing was learned"


def test_wrong_verdicts_are_refused(shop: Run) -> None:
    answer = shop("ask", "How many orders?", *PROJECT)
    assert "everhold ask confirm, correct or reject it" in answer.out.replace("\n", " ")
    query = shop("ask", "How many orders?", *PROJECT, "--json").document["query"]
    result = shop("ask", "correct", query, "--sql", "DELETE FROM orders", *PROJECT)
    assert (result.code, "only queries are allowed" in result.err) == (2, True)
    assert "pass --sql or --choice" in shop("ask", "correct", query, *PROJECT).err
    assert "`everhold ask learned` lists what" in shop("ask", "forget-learned", "lsn_none", *PROJECT).err
    assert "everhold ask correct teaches" in shop("ask", "purple elephants", *PROJECT).out.replace("\n", " ")
    assert "no query 'qry_none' in this scope" in shop("ask", "reject", "qry_none", *PROJECT).err
    assert shop("ask", "reject", query, *PROJECT).out.startswith("rejected: How many orders?")
    assert "Commands" in shop("ask", "--help").out


def make_towns(folder: Path) -> Path:
    folder.mkdir()
    names = ["Arles", "Brest", "Cahors", "Dinan", "Evian", "Fougeres", "Gap", "Herm"]
    database = sqlite3.connect(folder / "towns.sqlite")
    database.execute("CREATE TABLE town (name TEXT, region TEXT, people INTEGER)")
    rows = [(name, f"region {name[0]}", 10 * index) for index, name in enumerate(names)]
    database.executemany("INSERT INTO town VALUES (?, ?, ?)", rows)
    database.commit()
    database.close()
    pairs = [(f"souls of {name}", f"SELECT people FROM town WHERE name = '{name}'") for name in names]
    pairs += [(f"what is in {region}", f"SELECT name FROM town WHERE region = '{region}'") for _, region, _ in rows]
    questions = [{"question": question, "query": sql} for question, sql in pairs]
    (folder / "questions.json").write_text(json.dumps(questions))
    return folder


def test_learning_is_measured(run: Run, tmp_path: Path) -> None:
    figures = run("eval", "learning", str(make_towns(tmp_path / "towns")), "--folds", "2", "--json").document
    first, last = figures["by_question"][0], figures["by_question"][-1]
    assert (first["confirmed"], last["confirmed"], figures["questions"]) == (0, 8, 16)
    assert first["accuracy"] == first["accuracy_without"] < last["accuracy"] == 1.0
    assert last["literal_leaks"] == 0
    assert figures["by_template"]["is_worse"] is False
    noise = figures["wrong_confirmations"]
    assert noise["recovered_by_one_correction"] == noise["wrong_confirmations"] == 2


def test_a_file_that_cannot_be_measured_is_refused(run: Run, tmp_path: Path) -> None:
    folder = make_towns(tmp_path / "towns")
    (folder / "towns.sqlite").unlink()
    assert "0 SQLite files in" in run("eval", "learning", str(folder)).err
    (folder / "questions.json").write_text('[{"question": 1}]')
    assert "is not a list of questions" in run("eval", "learning", str(folder)).err
