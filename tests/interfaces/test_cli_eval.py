"""Measuring recall from the command line, on conversations and a suite that the tests write."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everhold.evaluation import curve
from everhold.evaluation.fitting import NAMES, Examples
from everhold.recall.recipe import FITTED, HYBRID
from tests.interfaces.conftest import Run

GARDEN = """
Hello Vera, how is the new garden?
I planted eleven tomato bushes behind the shed.
That sounds like a lot of work.
My back hurts, but the soil is wonderful there.
Did you keep the old apple tree?
Yes, the apple tree stays, a woodpecker nests in it.
How nice. I only have a balcony with basil.
Basil is a good start, it likes the sun.
My balcony faces north, sadly.
Then try ferns and mint in the shade.
I will buy mint on Saturday.
"""
SCHOOL = """
Good evening Omar, how did the exam go?
I passed chemistry with the second best mark of the class.
Congratulations! Did you sleep at all?
Three hours. My sister Leila kept making coffee for me.
What comes next for you?
In autumn I begin a course in marine biology in Lisbon.
Lisbon! Do you speak Portuguese?
Only a few words; I take lessons with a retired sailor.
A sailor as a teacher, that must be fun.
He pays with stories, I pay with lemon cake.
Bring me a slice of that cake.
"""
FILLER = "The {} I saw on {} was {}."
THINGS = ("bus", "parade", "window", "letter", "kite", "violin", "bridge")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
COLOURS = ("green", "yellow", "far too small", "made of glass", "late", "broken", "blue")


def make_session(number: int, speakers: tuple[str, str], lines: list[str]) -> list[dict[str, str]]:
    return [
        {"dia_id": f"D{number}:{index}", "speaker": speakers[(index + 1) % 2], "text": line}
        for index, line in enumerate(lines, 1)
    ]


def make_conversation(
    name: str, speakers: tuple[str, str], lines: str, questions: list[Any], shift: int
) -> dict[str, Any]:
    """Return a conversation as LoCoMo writes it; `shift` makes the filler of two conversations differ."""
    filler = [FILLER.format(thing, DAYS[-index], COLOURS[index - shift]) for index, thing in enumerate(THINGS)]
    return {
        "sample_id": name,
        "conversation": {
            "session_1": make_session(1, speakers, lines.strip().splitlines()),
            "session_1_date_time": "2:15 pm on 3 March, 2024",
            "session_2": make_session(2, speakers, filler + [f"{line} That was it." for line in filler]),
            "session_2_date_time": "11:05 am on 20 April, 2024",
        },
        "qa": [{"question": text, "evidence": evidence, "category": kind} for text, evidence, kind in questions],
    }


@pytest.fixture
def file(tmp_path: Path) -> str:
    garden = [
        ("How many tomato bushes did Vera plant?", ["D1:2"], 4),
        ("What animal built its home up there?", ["D1:6"], 1),
        ("What did they never talk about?", [], 5),
    ]
    school = [
        ("Which relative helped Omar stay awake?", ["D1:4"], 4),
        ("What does Omar pay his teacher with?", ["D1:10", "D1:8"], 1),
    ]
    conversations = [
        make_conversation("garden", ("Kim", "Vera"), GARDEN, garden, 1),
        make_conversation("school", ("Ida", "Omar"), SCHOOL, school, 2),
    ]
    (tmp_path / "talks.json").write_text(json.dumps(conversations), encoding="utf-8")
    return "talks.json"


def test_locomo_is_one_line_of_json(run: Run, file: str, tmp_path: Path) -> None:
    result = run("eval", "locomo", file, "--json")
    assert (result.code, result.out.count("\n")) == (0, 1)
    document = result.document
    assert list(document) == [
        "file", "folds", "r@5", "r@10", "r@25", "mrr", "questions", "by_category", "context_tokens",
    ]  # fmt: skip
    assert (document["file"], document["folds"], document["questions"]) == (file, None, 4)
    assert document["by_category"].keys() == {"single-hop", "multi-hop"}
    assert 0.75 <= document["r@5"] <= document["r@10"] <= document["r@25"] == 1.0
    assert document["context_tokens"] > 50
    assert not list(tmp_path.glob("*.db"))


def test_episodes_lead_to_sessions(run: Run, file: str) -> None:
    document = run("eval", "episodes", file, "--json").document
    assert (document["questions"], document["sessions@10"]) == (4, 1.0)
    assert document["by_conversation"].keys() == {"garden", "school"}
    assert 0 < document["summary_tokens"] < document["message_tokens"]
    assert "garden" in run("eval", "episodes", file).out


def test_locomo_is_printed_as_a_table(run: Run, file: str) -> None:
    result = run("eval", "locomo", file)
    assert result.code == 0
    rows = {line.split()[0]: line.split() for line in result.out.splitlines() if line.strip()}
    assert rows["all"][1] == "4"
    assert rows["single-hop"][1] == "2"
    assert "tokens on average" in result.out


def test_locomo_takes_folds_and_leaves_a_retriever_out(run: Run, file: str) -> None:
    document = run("eval", "locomo", file, "--folds", "conversation", "--without", "similar", "--json").document
    assert (document["folds"], document["without"], document["questions"]) == ("conversation", "similar", 4)
    assert 0 < document["r@25"] <= 1


def test_leaving_a_retriever_out_lowers_the_figures(run: Run, file: str) -> None:
    with_all = run("eval", "locomo", file, "--json").document
    without = run("eval", "locomo", file, "--without", "meaning", "--json").document
    assert without["mrr"] < with_all["mrr"]


def test_leave_one_out_names_every_retriever(run: Run, file: str) -> None:
    result = run("eval", "leave-one-out", file, "--json")
    assert (result.code, result.out.count("\n")) == (0, 1)
    document = result.document
    assert {"meaning", "words", "similar", "time", "speaker", "recency", "windows"} <= document["without"].keys()
    without_meaning = document["without"]["meaning"]
    assert without_meaning["difference"]["mrr"] == pytest.approx(without_meaning["mrr"] - document["mrr"], abs=1e-4)
    assert without_meaning["difference"]["mrr"] < 0
    output = run("eval", "leave-one-out", file).out
    assert max(map(len, output.splitlines())) <= 80
    assert any(line.startswith("windows ") for line in output.splitlines())


def test_fit_prints_what_weights_json_holds(run: Run, file: str) -> None:
    result = run("eval", "fit", file)
    assert result.code == 0
    document = result.document
    assert document.keys() == FITTED.keys()
    assert document["weights"].keys() == FITTED["weights"].keys()
    assert document["weights"] != FITTED["weights"]
    assert document["set_by_hand"] == FITTED["set_by_hand"]
    assert run("eval", "fit", file, "--json").document == document


def test_a_higher_minimum_returns_fewer_hits(run: Run, file: str) -> None:
    result = run("eval", "curve", file, "--json")
    assert (result.code, result.out.count("\n")) == (0, 1)
    points = result.document["points"]
    assert [points[0]["minimum"], points[-1]["minimum"], len(points)] == [0.05, 0.9, 18]
    recalls = [point["recall"] for point in points]
    silents = [point["silent"] for point in points]
    assert recalls == sorted(recalls, reverse=True)
    assert silents == sorted(silents)
    assert result.document["default"]["minimum"] == HYBRID.minimum
    rows = run("eval", "curve", file).out.splitlines()
    assert rows[0].split() == ["minimum", "precision", "recall", "silent"]
    assert rows[-1].startswith("default")


def test_a_point_of_the_curve_counts_returned_hits() -> None:
    weight = HYBRID.weights["date"]
    start = HYBRID.base + HYBRID.turn_base
    signals = np.zeros((1, 3, len(NAMES)), np.float32)
    # totals of 2, 1 and far below 1; the first and the third are evidence, the second is not
    signals[0, :2, NAMES.index("date")] = [(2 - start) / weight, (1 - start) / weight]
    strange = np.stack([signals[0], np.zeros_like(signals[0])])
    examples = [Examples(signals, np.array([[1, 0, 1]], np.float32), strange)]
    low = curve.measure_minimum(examples, 0.5, 0.0)
    assert (low.precision, low.recall, low.silent) == (0.5, 0.5, 0.5)
    high = curve.measure_minimum(examples, 0.8, 0.0)
    assert (high.precision, high.recall) == (1.0, 0.5)
    assert curve.measure_minimum(examples, 0.5, 0.9).precision == 1.0
    none = curve.measure_minimum(examples, 0.99, 0.0)
    assert (none.precision, none.recall, none.silent) == (None, 0.0, 1.0)


@pytest.mark.parametrize("command", ["locomo", "leave-one-out", "fit", "curve"])
def test_a_file_without_conversations_is_refused(run: Run, command: str, tmp_path: Path) -> None:
    result = run("eval", command, "nowhere.json", "--json")
    assert (result.code, result.out, result.error["kind"]) == (2, "", "InvalidInput")
    assert "there is no file nowhere.json; name a LoCoMo-shaped JSON file" in result.error["error"]
    assert run("eval", command, str(tmp_path)).code == 2
    for text in ("{}", "no JSON", '[{"conversation": {}}]', '[{"conversation": {}, "qa": []}]'):
        Path("bad.json").write_text(text, encoding="utf-8")
        result = run("eval", command, "bad.json")
        assert (result.code, result.out) == (2, "")
        assert "bad.json" in result.err


def test_too_little_to_fit_is_refused(run: Run, file: str) -> None:
    conversations = json.loads(Path(file).read_text("utf-8"))
    Path("one.json").write_text(json.dumps(conversations[:1]), encoding="utf-8")
    assert "has one conversation; add another" in run("eval", "fit", "one.json").err
    del conversations[1]["conversation"]["session_2"]
    Path("short.json").write_text(json.dumps(conversations), encoding="utf-8")
    result = run("eval", "locomo", "short.json", "--folds", "conversation")
    assert result.code == 2
    assert "conversation 'school' of short.json has 11 turns" in result.err


def test_an_unknown_retriever_is_refused(run: Run, file: str) -> None:
    result = run("eval", "locomo", file, "--without", "meanings")
    assert (result.code, result.out) == (2, "")
    assert "no retriever 'meanings'; did you mean 'meaning'?" in result.err
    assert run("eval", "locomo", file, "--folds", "session").code == 2


WORLD = """
memories:
  - {{key: bees, user: nok, text: "I keep two hives of bees on the roof."}}
  - {{key: bread, user: nok, text: "My sister bakes rye bread on Fridays."}}
cases:
  - {{ask: "Who bakes rye bread?", user: nok, category: direct, k: 1, must: [{wanted}]}}
  - {{ask: "Where are the hives of bees?", user: nok, category: paraphrase, k: 1, must: [bees]}}
"""


def test_precision_passes_or_fails_with_its_cases(run: Run) -> None:
    Path("suite").mkdir()
    Path("suite/roof.yaml").write_text(WORLD.format(wanted="bread"), encoding="utf-8")
    completed = run("eval", "precision", "suite", "--json")
    assert (completed.code, completed.out.count("\n")) == (0, 1)
    assert (completed.document["suite"], completed.document["cases"], completed.document["passed"]) == ("suite", 2, 2)
    Path("suite/roof.yaml").write_text(WORLD.format(wanted="bees"), encoding="utf-8")
    failed = run("eval", "precision", "suite", "--json")
    assert (failed.code, failed.document["passed"]) == (1, 1)
    result = run("eval", "precision", "suite")
    assert result.code == 1
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines() if line.strip()}
    assert rows["direct"] == ["1", "0", "0.000", "0.000"]
    assert rows["all"][:2] == ["2", "1"]
    output = " ".join(result.out.split())
    assert "roof.yaml:6" in output
    assert "missing bees; unwanted bread" in output


def test_a_file_that_is_not_a_suite_is_refused(run: Run) -> None:
    result = run("eval", "precision", "nowhere", "--json")
    assert (result.code, result.error["kind"]) == (2, "InvalidInput")
    assert "no *.yaml in 'nowhere'" in result.error["error"]
    Path("file.yaml").write_text("memories: []", encoding="utf-8")
    assert run("eval", "precision", "file.yaml").code == 2
