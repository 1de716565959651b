"""The reader of precision suites says where a suite is wrong, and the evaluator fails the cases that must fail."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, clock
from everhold.errors import InvalidInput, UnknownField
from everhold.evaluation.precision import CaseOutcome, PrecisionReport, evaluate, judge, list_keys
from everhold.evaluation.precision_format import Case, read, resolve_time
from tests.engines import KeptRecords, Store

MEMORIES = """
memories:
  - {key: cat, user: nok, text: "My cat is called Mali."}
  - {key: coffee, user: nok, text: "I drink my coffee black.", kind: preference, tags: [drinks]}
  - {key: dog, user: arun, text: "My dog is called Boss."}
"""
ONE_CASE = "\ncases: [{ask: q, category: nothing}]"
CASE_START = '{ask: "What is my cat called?", user: nok, category: direct'


@pytest.fixture
def open_engine() -> Iterator[Callable[[], Everhold]]:
    opened: list[Store] = []

    def open_new_engine() -> Everhold:
        opened.append(Store("in_memory", "memory://", KeptRecords()))
        return opened[-1].open()

    yield open_new_engine
    for store in opened:
        store.close()


def write_world(folder: Path, text: str, name: str = "world.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def evaluate_case(
    folder: Path, open_engine: Callable[[], Everhold], case: str, memories: str = MEMORIES
) -> CaseOutcome:
    write_world(folder, f"{memories}cases:\n  - {case}\n")
    (outcome,) = evaluate(read(folder), open_engine).outcomes
    return outcome


# reading


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{MEMORIES}case: []\n", "world.yaml, line 6: a world has no 'case'; did you mean 'cases'?"),
        ("[]", "world.yaml is not a mapping; a world has now, memories, cases"),
        ("cases: []", "world.yaml has no memories; list at least one"),
        (MEMORIES, "world.yaml has no cases; list at least one"),
        ("memories: [Mali]", "'Mali' under 'memories' is not a mapping"),
        ("memories: [{key: a, key: b}]", "line 1: 'key' is given twice"),
        ("memories: [{key: a", "line 1: .*; correct the YAML there"),
        ("memories: [{key: a, text: b, tag: [c]}]", "line 1, memory 'a' has no field 'tag'; did you mean 'tags'?"),
        ("memories: [{key: a, text: b, line: 3}]", "line 1: memories have no 'line'"),
        ("memories: [{key: a}]", "memory 'a': text is missing"),
        ("memories: [{key: a, text: b, priority: high}]", "priority is 'high'; it should be"),
        ("memories: [{key: a, text: b, expires: soon}]", r"expires: not a time .got 'soon'.; write 2026-03-01"),
        (
            "memories: [{key: a, text: b}, {key: a, text: c}]" + ONE_CASE,
            "memory 'a': line 1 has that key already",
        ),
        (
            "memories: [{key: ab, text: b}, {key: c, text: c, supersedes: abc}]" + ONE_CASE,
            "memory 'c': supersedes no earlier memory; did you mean 'ab'?",
        ),
        (
            "memories: [{key: a, text: b}, {key: c, text: d, user: u, supersedes: a}]" + ONE_CASE,
            "memory 'c': supersedes 'a' of another scope",
        ),
        ("now: noon\nmemories: []", "now 'noon' is not a time"),
    ],
)
def test_the_error_about_a_wrong_world_says_where(tmp_path: Path, text: str, message: str) -> None:
    write_world(tmp_path, text)
    with pytest.raises(InvalidInput, match=message.replace("?", r"\?").replace("[", r"\[")):
        read(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("musst: [cat]", "line 7, case 'What is my cat called?' has no field 'musst'; did you mean 'must'?"),
        ("must: [cta]", "no memory has the key 'cta'; did you mean 'cat'?"),
        ("must: cat", "must is 'cat'; it should be"),
        ("must: [cat], may: [cat]", "'cat' is listed twice with different meanings"),
        ("may: [cat], must_not: [cat]", "'cat' is listed twice with different meanings"),
        ("k: 0", "k is '0'; it should be greater than or equal to 1"),
        ("budget: 50, k: 3", "narrow a recall; leave them out or leave out the budget"),
    ],
)
def test_the_error_about_a_wrong_case_says_where(tmp_path: Path, fields: str, message: str) -> None:
    write_world(tmp_path, f"{MEMORIES}cases:\n  - {CASE_START}, {fields}}}\n")
    with pytest.raises(InvalidInput, match=message.replace("?", r"\?")):
        read(tmp_path)


@pytest.mark.parametrize(
    ("category", "fields", "message"),
    [
        ("nothings", "", "no category 'nothings'; did you mean 'nothing'?"),
        ("nothing", ", may: [cat]", "category 'nothing' with memories that may come back"),
        ("budget", ", must: [cat]", "category 'budget' without a budget"),
    ],
)
def test_a_category_requires_its_fields(tmp_path: Path, category: str, fields: str, message: str) -> None:
    write_world(tmp_path, f"{MEMORIES}cases:\n  - {{ask: Why, category: {category}{fields}}}\n")
    with pytest.raises(InvalidInput, match=message.replace("?", r"\?")):
        read(tmp_path)


def test_an_unknown_field_has_its_own_error_class(tmp_path: Path) -> None:
    write_world(tmp_path, "memories: [{key: a, text: b, colour: red}]")
    with pytest.raises(UnknownField):
        read(tmp_path)


def test_a_directory_without_worlds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no \*.yaml in"):
        read(tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_bytes(b"memories: \xff\xfe")
    with pytest.raises(InvalidInput, match=r"world.yaml is not YAML in UTF-8"):
        read(tmp_path)


def test_words_that_yaml_would_convert_stay_words(tmp_path: Path) -> None:
    write_world(
        tmp_path,
        "memories: [{key: no, text: 2026-03-01, pinned: true, priority: 7}]\ncases: [{ask: on, category: nothing}]",
    )
    (world,) = read(tmp_path)
    (memory,) = world.memories
    assert (memory.key, memory.text, memory.pinned, memory.priority) == ("no", "2026-03-01", True, 7)
    assert world.cases[0].ask == "on"


def test_worlds_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml"):
        write_world(tmp_path, f"{MEMORIES}cases:\n  - {CASE_START}}}\n", name)
    assert [world.name for world in read(tmp_path)] == ["a", "b"]


# times

PRESENT = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("-3d", PRESENT - timedelta(days=3)),
        ("+2h", PRESENT + timedelta(hours=2)),
        ("-90m", PRESENT - timedelta(minutes=90)),
        ("+1w", PRESENT + timedelta(weeks=1)),
        ("2026-04-30T19:00+07:00", PRESENT - timedelta(days=1)),
        ("2026-05-01", PRESENT - timedelta(hours=12)),
    ],
)
def test_times_are_distances_or_dates(written: str, meant: datetime) -> None:
    assert resolve_time(written, PRESENT, None) == meant


def test_a_world_with_its_own_present_moves_its_dates_but_not_its_distances() -> None:
    now = datetime(2020, 1, 10, tzinfo=UTC)
    assert resolve_time("2020-01-08", PRESENT, now) == PRESENT - timedelta(days=2)
    assert resolve_time("-2d", PRESENT, now) == PRESENT - timedelta(days=2)


def test_relative_times_of_a_memory_are_resolved(tmp_path: Path) -> None:
    text = "memories: [{key: a, text: b, occurred: -3d, expires: +2h}]" + ONE_CASE
    (world,) = read(write_world(tmp_path, text))
    present = clock.now()
    fields = world.memories[0].make_fields(present, world.now)
    assert fields == {
        "key": "a",
        "occurred_at": world.now - timedelta(days=3),
        "expires_at": present + timedelta(hours=2),
    }


# judging


def make_case(**fields: Any) -> Case:
    return Case.model_validate({"ask": "Why?", "category": "direct", **fields})


@pytest.mark.parametrize(
    ("fields", "returned", "precision", "recall", "passed"),
    [
        ({"must": ["a"]}, ["a"], 1, 1, True),
        ({"must": ["a"]}, ["a", "b"], 0.5, 1, False),
        ({"must": ["a"], "may": ["b"]}, ["a", "b"], 1, 1, True),
        ({"must": ["a"], "may": ["b"]}, ["b"], 1, 0, False),
        ({"must": ["a", "b"]}, ["a"], 1, 0.5, False),
        ({"must": ["a"]}, [], 0, 0, False),
        ({"may": ["a"]}, [], 1, 1, True),
        ({"may": ["a"], "must_not": ["b"]}, ["a", "b", "c", "d"], 0.25, 1, False),
        ({}, [], 1, 1, True),
        ({}, ["a"], 0, 1, False),
    ],
)
def test_precision_and_recall_of_a_case_are_computed(
    fields: dict[str, Any], returned: list[str], precision: float, recall: float, passed: bool
) -> None:
    case_outcome = judge("case", make_case(**fields), returned)
    assert (case_outcome.precision, case_outcome.recall, case_outcome.passed) == (precision, recall, passed)


def test_a_fault_fails_a_case_whose_hits_are_right() -> None:
    case_outcome = judge("case", make_case(must=["a"]), ["a"], ["the context has 90 tokens, over the budget of 80"])
    assert not case_outcome.passed
    assert case_outcome.as_json()["faults"] == ["the context has 90 tokens, over the budget of 80"]


# asking


def test_a_case_passes_if_the_required_memory_is_returned(tmp_path: Path, open_engine: Callable[[], Everhold]) -> None:
    assert evaluate_case(tmp_path, open_engine, f"{CASE_START}, k: 1, must: [cat]}}").passed


def test_a_case_fails_if_the_required_memory_is_not_returned(
    tmp_path: Path, open_engine: Callable[[], Everhold]
) -> None:
    case_outcome = evaluate_case(tmp_path, open_engine, f"{CASE_START}, k: 1, must: [dog], may: [cat]}}")
    assert (case_outcome.missing, case_outcome.unwanted, case_outcome.recall, case_outcome.passed) == (
        ("dog",),
        (),
        0,
        False,
    )


def test_a_case_fails_if_a_forbidden_memory_is_returned(tmp_path: Path, open_engine: Callable[[], Everhold]) -> None:
    case_outcome = evaluate_case(tmp_path, open_engine, f"{CASE_START}, k: 1, must_not: [cat]}}")
    assert (case_outcome.missing, case_outcome.unwanted, case_outcome.precision, case_outcome.passed) == (
        (),
        ("cat",),
        0,
        False,
    )


def test_the_filter_of_a_case_is_applied(tmp_path: Path, open_engine: Callable[[], Everhold]) -> None:
    case = '{ask: "How do I drink my coffee?", user: nok, category: direct, must: [coffee]'
    assert evaluate_case(tmp_path, open_engine, f"{case}, kind: preference}}").passed
    assert evaluate_case(tmp_path, open_engine, f"{case}, tags: [drinks]}}").passed
    assert evaluate_case(tmp_path, open_engine, f"{case}, kind: plan}}").missing == ("coffee",)


def test_a_superseded_memory_is_gone_and_its_successor_is_found(
    tmp_path: Path, open_engine: Callable[[], Everhold]
) -> None:
    successor = '  - {key: tom, user: nok, text: "My cat is called Tom.", supersedes: cat}\n'
    case_outcome = evaluate_case(
        tmp_path, open_engine, f"{CASE_START}, k: 1, must: [tom], must_not: [cat]}}", MEMORIES + successor
    )
    assert case_outcome.passed


def test_an_expired_memory_is_not_returned(tmp_path: Path, open_engine: Callable[[], Everhold]) -> None:
    memories = 'memories:\n  - {key: cat, user: nok, text: "My cat is called Mali.", expires: -1h}\n'
    assert evaluate_case(tmp_path, open_engine, f"{CASE_START}, must: [cat]}}", memories).missing == ("cat",)


def test_a_derived_fact_counts_as_its_source(open_engine: Callable[[], Everhold]) -> None:
    nok = open_engine().scope(user="nok")
    turn = nok.remember("I told you that my cat is called Mali.", kind="conversation")
    derived = nok.remember("Nok's cat is called Mali.", kind="fact", provenance={"memory": turn.id})
    stranger = nok.remember("Nok drinks coffee.", kind="fact")
    assert list_keys([derived, turn, stranger], {turn.id: "cat"}) == ("cat", stranger.id)


def test_pinned_memories_are_judged_separately(tmp_path: Path, open_engine: Callable[[], Everhold]) -> None:
    memories = f'{MEMORIES}  - {{key: english, user: nok, text: "Always answer in English.", pinned: true}}\n'
    assert evaluate_case(
        tmp_path, open_engine, f"{CASE_START}, k: 1, must: [cat], pinned: [english]}}", memories
    ).passed
    case_outcome = evaluate_case(tmp_path, open_engine, f"{CASE_START}, k: 1, must: [cat], pinned: []}}", memories)
    assert case_outcome.faults == ("pinned are ['english'], not []",)


def test_a_budget_asks_for_a_context(tmp_path: Path, open_engine: Callable[[], Everhold]) -> None:
    assert evaluate_case(tmp_path, open_engine, f"{CASE_START}, budget: 200, must: [cat], may: [coffee]}}").passed
    assert evaluate_case(
        tmp_path, open_engine, f"{CASE_START}, budget: 200, must: [dog], may: [cat, coffee]}}"
    ).missing == ("dog",)


# reporting


def test_a_report_is_converted_to_json() -> None:
    right = judge("w.yaml:3 Why?", make_case(must=["a"]), ["a"])
    wrong = judge("w.yaml:4 Why not?", make_case(category="nothing"), ["b"])
    gap = judge("w.yaml:5 How?", make_case(must=["a"], gap="not seen"), [])
    assert PrecisionReport("suite", (right, wrong), (gap,)).as_json() == {
        "suite": "suite",
        "cases": 2,
        "passed": 1,
        "precision": 0.5,
        "recall": 1.0,
        "nothing": {"cases": 1, "passed": 0},
        "by_category": {
            "direct": {"cases": 1, "passed": 1, "precision": 1.0, "recall": 1.0},
            "nothing": {"cases": 1, "passed": 0, "precision": 0.0, "recall": 1.0},
        },
        "failed": [{"case": "w.yaml:4 Why not?", "missing": [], "unwanted": ["b"]}],
        "gaps": {"cases": 1, "passed": 0, "precision": 0.0, "recall": 0.0, "closed": []},
        "with_gaps": {"cases": 3, "passed": 1, "precision": 0.3333, "recall": 0.6667},
    }


def test_a_case_is_named_by_its_place_and_question(tmp_path: Path, open_engine: Callable[[], Everhold]) -> None:
    assert evaluate_case(tmp_path, open_engine, f"{CASE_START}}}").name == "world.yaml:7 What is my cat called?"
