"""The questions about the sample data: how many are answered right. `everhold eval ask` prints the same figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from examples.make_sample_data import write_all
from tests.exhaustive import choose_size
from tests.interfaces.conftest import Run

QUESTIONS = Path(__file__).parents[2] / "examples" / "sample_questions.json"
# `make contract` asks all questions, `make test` every second one.
STEP = choose_size(2, 1)
# Raise these when more questions are answered right. A question that is unclear is better than a wrong answer.
MIN_RIGHT = choose_size(17, 34)
MAX_WRONG = choose_size(1, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    write_all(folder)
    return folder


def evaluate(run: Run, questions: Path, folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = run("eval", "ask", str(questions), str(folder), "--json").document
    return document


def test_the_sample_questions_reach_the_bar(run: Run, folder: Path, tmp_path: Path) -> None:
    document = json.loads(QUESTIONS.read_text())
    assert len(document["questions"]) == 40
    asked = document["questions"][::STEP]
    (tmp_path / "questions.json").write_text(json.dumps(document | {"questions": asked}))
    figures = evaluate(run, tmp_path / "questions.json", folder)
    assert figures["questions"] == len(asked)
    assert figures["right"] + figures["wrong"] + figures["unclear"] == len(asked)
    assert figures["right"] >= MIN_RIGHT, [missed["question"] for missed in figures["missed"]]
    assert figures["wrong"] <= MAX_WRONG, [missed["question"] for missed in figures["missed"]]
    assert len(figures["missed"]) == len(asked) - figures["right"]


def test_questions_with_wrong_answers_are_listed(run: Run, folder: Path, tmp_path: Path) -> None:
    document = json.loads(QUESTIONS.read_text())
    chosen = [
        {"id": "a", "source": "shop", "question": "How many customers?", "sql": "SELECT count(*) FROM customers"},
        {"id": "b", "source": "shop", "question": "How many stores?", "sql": "SELECT count(*) + 1 FROM stores"},
        {"id": "c", "source": "shop", "question": "What is the churn?", "sql": "SELECT 1"},
    ]
    document |= {"questions": chosen, "sources": {"shop": document["sources"]["shop"]}}
    (tmp_path / "questions.json").write_text(json.dumps(document))
    figures = evaluate(run, tmp_path / "questions.json", folder)
    assert (figures["right"], figures["wrong"], figures["unclear"]) == (1, 1, 1)
    assert [(missed["verdict"], missed["status"]) for missed in figures["missed"]] == [
        ("wrong", "answered"),
        ("unclear", "cannot"),
    ]
    output = run("eval", "ask", str(tmp_path / "questions.json"), str(folder)).out
    assert "wrong: How many stores?" in output


def test_a_file_that_has_no_questions_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "questions.json").write_text("[]")
    result = run("eval", "ask", str(tmp_path / "questions.json"), str(tmp_path))
    assert (result.code, "is not a file of questions" in result.err) == (2, True)
