"""Questions about lives from the command line, on a tiny life that the tests write, with the real model."""

import json
from pathlib import Path
from typing import Any

import pytest

from everhold.evaluation.questions import FIGURES
from tests.interfaces.conftest import Run

MEMORIES = [
    {"id": "bees", "at": "2025-01-05T10:00:00+00:00", "text": "I keep two hives of bees on the roof."},
    {"id": "bread", "at": "2025-02-05T10:00:00+00:00", "text": "My sister Vesna bakes rye bread on Fridays."},
    {"id": "old", "at": "2025-03-05T10:00:00+00:00", "text": "I live in Graz."},
    {"id": "new", "at": "2025-09-05T10:00:00+00:00", "text": "I live in Maribor.", "updates": ["old"]},
    {
        "id": "plan",
        "at": "2025-09-06T10:00:00+00:00",
        "text": "Vesna would like to move to Trieste.",
        "not_update": True,
    },
]


def make_question(number: int, text: str, kind: str, expect: list[str], **fields: Any) -> dict[str, Any]:
    asked_at = "2025-12-01T10:00:00+00:00"
    return {"id": f"q{number}", "q": text, "type": kind, "asked_at": asked_at, "expect": expect, **fields}


QUESTIONS = [
    make_question(1, "Who bakes rye bread?", "single", ["bread"], answer="Vesna"),
    make_question(2, "Do I live in Graz or in Maribor?", "update", ["new"], stale=["old"]),
    make_question(3, "How does photosynthesis convert light?", "no_answer", []),
    # Labelled wrong on purpose, so that something fails.
    make_question(4, "Where are the hives of bees?", "single", ["plan"]),
]


@pytest.fixture
def life(run: Run) -> str:
    """The file of a life in the working directory, which `run` has changed to a new folder."""
    return write_document(
        "vida.json", {"persona": "vida", "title": "Vida", "memories": MEMORIES, "questions": QUESTIONS}
    )


def write_document(name: str, document: Any) -> str:
    Path(name).write_text(json.dumps(document), encoding="utf-8")
    return name


def test_figures_are_one_line_of_json(run: Run, life: str, tmp_path: Path) -> None:
    result = run("eval", "questions", life, "--json")
    assert (result.code, result.out.count("\n")) == (0, 1)
    document = result.document
    assert list(document) == [
        "files",
        "fold",
        "few",
        "folds",
        "questions",
        *FIGURES,
        "by_type",
        "by_life",
        "reliability",
    ]
    assert (document["files"], document["fold"], document["questions"]) == ([life], None, 4)
    assert (document["top1"], document["recall"], document["silence"]) == (0.667, 0.667, 1.0)
    assert (document["stale_on_top"], document["lookalike"]) == (0.0, 0.0)
    assert document["by_type"]["single"] | {"precision": None, "hits": None} == {
        "questions": 2, "top1": 0.5, "recall": 0.5, "precision": None, "stale_on_top": None, "silence": None,
        "lookalike": 0.0, "hits": None,
    }  # fmt: skip
    assert document["by_life"].keys() == {"vida"}
    assert not list(tmp_path.glob("*.db"))


def test_the_reliability_table_counts_hits_below_the_minimum(run: Run, life: str) -> None:
    document = run("eval", "questions", life, "--json").document
    reliability = document["reliability"]
    bins = reliability["bins"]
    assert [score_bin["low"] for score_bin in bins] == [number / 10 for number in range(10)]
    assert sum(score_bin["hits"] for score_bin in bins) == reliability["hits"] > 4 * document["hits"]
    assert bins[0]["hits"] > 0
    distances = [
        score_bin["hits"] * abs(score_bin["score"] - score_bin["right"]) for score_bin in bins if score_bin["hits"]
    ]
    assert reliability["error"] == pytest.approx(sum(distances) / reliability["hits"], abs=2e-3)
    assert 0 <= reliability["returned_error"] <= 1


def test_figures_are_printed_as_a_table(run: Run, life: str) -> None:
    result = run("eval", "questions", life)
    assert result.code == 0
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines() if line.strip()}
    assert rows["single"][:3] == ["2", "0.500", "0.500"]
    assert rows["no_answer"][5] == "1.000"
    assert rows["all"][0] == "4"
    assert "vida" not in rows
    assert rows["0.0–0.1"]
    assert "expected calibration error 0." in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_failures_list_the_memories_that_were_returned(run: Run, life: str) -> None:
    result = run("eval", "questions", life, "--failures", "--json")
    assert result.code == 0
    (failure,) = result.document["failures"]
    hits = failure.pop("hits")
    assert failure == {
        "life": "vida", "question": "q4", "type": "single", "q": "Where are the hives of bees?", "answer": "",
        "faults": ["wrong on top", "incomplete"], "missing": ["plan"],
    }  # fmt: skip
    assert hits[0]["id"] == "bees"
    output = run("eval", "questions", life, "--failures").out
    assert "vida q4 [single] Where are the hives of bees? → wrong on top, incomplete" in " ".join(output.split())
    assert "missing         plan  Vesna would like" in output
    assert "wrong     bees  I keep two hives" in output


def test_several_lives_are_measured_together_and_in_folds(run: Run, life: str) -> None:
    small_life = {"persona": "vida", "memories": MEMORIES[:2], "questions": QUESTIONS[:1]}
    files = [life, write_document("ana.json", small_life), write_document("ema.json", small_life)]
    document = run("eval", "questions", *files, "--json").document
    assert {name: figures["questions"] for name, figures in document["by_life"].items()} == {
        "vida": 4,
        "ana": 1,
        "ema": 1,
    }
    fold = run("eval", "questions", *files, "--fold", "1/2", "--json").document
    assert (fold["files"], fold["fold"], fold["questions"]) == ([life, "ema.json"], "1/2", 5)
    assert run("eval", "questions", *files, "--fold", "2/2", "--json").document["files"] == ["ana.json"]
    assert "\nema " in run("eval", "questions", *files).out


@pytest.mark.parametrize("fold", ["2", "0/1", "2/1", "1/3", "x/y", "1/0", "-1/2"])
def test_an_invalid_fold_is_refused(run: Run, life: str, fold: str) -> None:
    result = run("eval", "questions", life, f"--fold={fold}", "--json")
    assert (result.code, result.out, result.error["kind"]) == (2, "", "InvalidInput")
    assert f"--fold: {fold!r} is not a fold of the given files (1); write K/N" in result.error["error"]


def test_invalid_options_of_fitting_and_folds_are_refused(run: Run, life: str) -> None:
    result = run("eval", "questions", life, "--folds", "life", "--few", "--json")
    assert (result.code, result.error["error"]) == (2, "--folds does not work with --few; leave out one of them")
    result = run("eval", "questions", life, "--folds", "life", "--json")
    assert (result.code, result.error["kind"]) == (2, "InvalidInput")
    assert result.error["error"].startswith("folds need at least 2 lives; got 1")
    result = run("eval", "fit-answers", life, "--part", "chances", "--json")
    assert (result.code, result.error["kind"]) == (2, "InvalidInput")
    assert result.error["error"].startswith("--part: no part 'chances' of the weights")


def test_a_bad_file_is_refused(run: Run, life: str, tmp_path: Path) -> None:
    result = run("eval", "questions", life, "nowhere.json", "--json")
    assert (result.code, result.out, result.error["kind"]) == (2, "", "InvalidInput")
    assert "cannot read nowhere.json (No such file or directory); name a readable JSON file" in result.error["error"]
    bad = write_document(
        "bad.json", {"persona": "vida", "memories": MEMORIES, "questions": [{**QUESTIONS[0], "expect": ["bred"]}]}
    )
    result = run("eval", "questions", bad)
    assert (result.code, result.out) == (2, "")
    assert "bad.json, question 'q1': no memory has the id 'bred' of 'expect'; did you mean 'bread'?" in result.err
    assert run("eval", "questions", str(tmp_path)).code == 2
    assert run("eval", "questions").code == 2
