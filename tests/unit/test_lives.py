"""The reader of lives says where a file is wrong; the judge of answers gives the figures that were counted by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from everhold.errors import InvalidInput
from everhold.evaluation.lives import LifeQuestion, read_life, read_lives
from everhold.evaluation.questions import ScoredMemory, count_steps, evaluate, judge, score_hits
from everhold.evaluation.reliability import ScoredHit, tabulate_scores
from tests.engines import KeptRecords, Store

# The weights of answers are fitted to LIVES; those of their chance are fitted to UNSEEN_LIVES too.
LIVES_FOLDER = Path(__file__).resolve().parents[1] / "lives"
LIVES, UNSEEN_LIVES = sorted(LIVES_FOLDER.glob("*.json")), sorted(LIVES_FOLDER.glob("unseen/*.json"))
MEMORIES: list[dict[str, Any]] = [
    {"id": "m2", "at": "2025-05-01T09:00:00+02:00", "text": "I moved to Bergen.", "updates": ["m1"]},
    {"id": "m1", "at": "2025-01-01T09:00:00+02:00", "text": "I live in Oslo.", "speaker": "user", "kind": "fact"},
    {"id": "m3", "at": "2025-06-01T09:00:00+02:00", "text": "Kari may move to Voss.", "not_update": True},
]
QUESTION: dict[str, Any] = {
    "id": "q1", "q": "Where do I live?", "type": "update", "asked_at": "2026-01-01T09:00:00+02:00", "expect": ["m2"],
}  # fmt: skip


def make_life(**changed: Any) -> dict[str, Any]:
    return {"persona": "nils", "title": "Nils", "memories": MEMORIES, "questions": [QUESTION], **changed}


def make_life_with_question(**changed: Any) -> dict[str, Any]:
    return make_life(questions=[{**QUESTION, **changed}])


def write_life(folder: Path, document: Any, name: str = "life.json") -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


# reading


def test_a_life_is_read_in_time_order(tmp_path: Path) -> None:
    life = read_life(write_life(tmp_path, make_life()))
    assert (life.name, life.persona, life.title) == ("life", "nils", "Nils")
    assert [memory.id for memory in life.memories] == ["m1", "m2", "m3"]
    assert life.memories[0].fields == {"occurred_at": life.memories[0].at, "speaker": "user", "kind": "fact"}
    assert life.memories[1].fields.keys() == {"occurred_at"}
    assert life.lookalikes == {"m3"}
    assert life.questions[0].asked_at.isoformat() == QUESTION["asked_at"]


@pytest.mark.parametrize("path", [*LIVES, *UNSEEN_LIVES], ids=lambda path: path.stem)
def test_our_lives_are_valid(path: Path) -> None:
    life = read_life(path)
    assert len(life.memories) >= 90
    assert len(life.questions) == (102 if path in LIVES else 90)


def test_there_are_eight_lives_and_six_unseen_ones() -> None:
    assert (len(LIVES), len(UNSEEN_LIVES)) == (8, 6)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "life.json is not JSON in UTF-8 .*; correct it there"),
        ([1], r"life.json holds \[1\], not an object; write an object with persona, title, memories, questions"),
        (make_life(question=[]), "a life has no field 'question'; did you mean 'questions'?"),
        (make_life(memories=[]), "life.json has no memories; list at least one"),
        (make_life(questions="none"), "life.json has no questions; list at least one"),
        (make_life(memories=["hello"]), r"memories\[1\] is 'hello', not an object; write its fields by name"),
        (make_life(persona=7), "persona is 7; it should be a valid string"),
        ({"memories": MEMORIES, "questions": [QUESTION]}, "life.json: persona is missing"),
        (make_life(memories=[*MEMORIES, MEMORIES[0]]), "two memory ids 'm2'; rename one"),
        (make_life(questions=[QUESTION, QUESTION]), "two question ids 'q1'; rename one"),
        (
            make_life(memories=[{**MEMORIES[0], "updates": ["m0"]}]),
            "memory 'm2': no memory has the id 'm0' of 'updates'",
        ),
        (make_life(memories=[{**MEMORIES[0], "text": " "}]), r"memories\[1\] \(m2\): text: the text is blank .*write"),
        (make_life(memories=[{**MEMORIES[0], "at": "2025-05-01T09:00:00"}]), "at: time .* has no zone"),
        (make_life(memories=[{**MEMORIES[0], "spaker": "x"}]), "has no field 'spaker'; did you mean 'speaker'?"),
        (
            make_life_with_question(asked_at="2026-01-01T09:00:00"),
            r"questions\[1\] \(q1\): asked_at is .*; it should have timezone info",
        ),
        (
            make_life_with_question(expect=["m22"]),
            "question 'q1': no memory has the id 'm22' of 'expect'; did you mean 'm2'?",
        ),
        (
            make_life_with_question(also_ok=["xyz"]),
            "no memory has the id 'xyz' of 'also_ok'; use the id of a memory of this file",
        ),
        (make_life_with_question(stale=["m2"]), "'m2' is in 'expect' and in 'stale'; keep one"),
        (make_life_with_question(expect=[], also_ok=["m2"]), "'also_ok' lists memories and 'expect' none; move"),
        (
            make_life_with_question(type="no_answer"),
            "type 'no_answer' with memories in 'expect'; change the type or empty 'expect'",
        ),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_life(write_life(tmp_path, document))


def test_missing_files_and_repeated_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot read .*none.json \(No such file or directory\); name a readable"):
        read_life(tmp_path / "none.json")
    path = write_life(tmp_path, make_life())
    with pytest.raises(InvalidInput, match="two files are named 'life'; name each file once"):
        read_lives([path, path])


# judging


def make_question(**fields: Any) -> LifeQuestion:
    return LifeQuestion.model_validate({**QUESTION, "expect": ["a", "b"], "also_ok": ["c"], "stale": ["s"], **fields})


@pytest.mark.parametrize(
    ("returned", "figures"),
    [
        ("", {"top1": 0, "recall": 0, "lookalike": 0, "hits": 0, "stale_on_top": 0}),
        ("ab", {"top1": 1, "recall": 1, "lookalike": 0, "hits": 2, "precision": 1, "stale_on_top": 0}),
        # A welcome memory at the top is right, but a stale memory above the needed one is still an error.
        ("csa", {"top1": 1, "recall": 0.5, "lookalike": 0, "hits": 3, "precision": 2 / 3, "stale_on_top": 1}),
        ("as", {"top1": 1, "recall": 0.5, "lookalike": 0, "hits": 2, "precision": 0.5, "stale_on_top": 0}),
        ("xs", {"top1": 0, "recall": 0, "lookalike": 1, "hits": 2, "precision": 0, "stale_on_top": 1}),
        ("ya", {"top1": 0, "recall": 0.5, "lookalike": 0, "hits": 2, "precision": 0.5, "stale_on_top": 0}),
    ],
)
def test_each_question_has_the_expected_figures(returned: str, figures: dict[str, float]) -> None:
    assert judge(make_question(), returned, frozenset("xc")) == pytest.approx(figures)


def test_figures_that_do_not_apply_are_absent() -> None:
    assert "stale_on_top" not in judge(make_question(stale=[]), "a", frozenset())
    no_answer = make_question(expect=[], also_ok=[])
    assert judge(no_answer, "", frozenset()) == {"silence": 1, "hits": 0}
    assert judge(no_answer, "s", frozenset("s")) == {"silence": 0, "hits": 1}


def test_a_hit_is_right_if_it_is_expected_or_welcome() -> None:
    hits = [ScoredMemory(memory_id, 0.5) for memory_id in "acsx"]
    assert [hit.is_right for hit in score_hits(make_question(), hits)] == [True, True, False, False]
    assert not any(hit.is_right for hit in score_hits(make_question(expect=[], also_ok=[]), hits))


# reliability


def test_hits_are_counted_in_bins_of_their_scores() -> None:
    hits = [ScoredHit(0.04, False), ScoredHit(0.92, True), ScoredHit(1.0, False), ScoredHit(0.5, True)]
    table = tabulate_scores(hits)
    assert [score_bin.hits for score_bin in table.bins] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    assert table.bins[1][2:] == (0, None, None)
    assert table.bins[5][2:] == (1, 0.5, 1.0)
    assert table.bins[9] == (0.9, 1.0, 2, 0.96, 0.5)
    # (1 × |.04 − 0| + 1 × |.5 − 1| + 2 × |.96 − .5|) / 4
    assert table.error == 0.365
    assert tabulate_scores([]).error is None


# the flow


def test_every_step_is_reported(tmp_path: Path) -> None:
    life = read_life(write_life(tmp_path, make_life()))
    store, steps = Store("in_memory", "memory://", KeptRecords()), list[int]()
    report = evaluate([life], store.open, steps.append)
    assert sum(steps) == count_steps([life]) == 3 + 2
    assert [verdict.question.id for verdict in report.verdicts] == ["q1"]
