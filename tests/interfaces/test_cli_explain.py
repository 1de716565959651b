"""`--why`, `--why-not` and pinned memories: why a hit was returned and why a memory was not."""

import math

import pytest

from tests.interfaces.conftest import Run

RECALL_DOG = ("recall", "what is the dog called?", "--user", "alice")


@pytest.fixture
def run_filled(run: Run) -> Run:
    """Three memories of alice's, one of them pinned."""
    run("remember", "Prefers backend work over design", "--id", "work", "--tag", "job", "--user", "alice")
    run("remember", "Has a dog called Rex", "--id", "dog", "--kind", "fact", "--user", "alice")
    run("remember", "Is allergic to nuts", "--id", "nuts", "--pinned", "--tag", "health", "--user", "alice")
    return run


def test_the_table_has_a_row_per_hit_and_a_column_per_retriever_that_counted(run_filled: Run) -> None:
    result = run_filled(*RECALL_DOG, "--minimum", "0", "--explain")
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    heading = next(line for line in lines if line.startswith("#") and "score" in line)
    columns = heading.split()
    assert columns[:3] == ["#", "score", "meaning"]
    assert {"words", "similar", "importance", "recency"} <= set(columns)
    assert not {"name", "speaker", "time", "related", "replaced"} & set(columns)
    index = lines.index(heading)
    assert [line.split()[0] for line in lines[index + 2 : index + 5]] == ["1", "2", "3"]


def test_contributions_and_base_make_the_score(run_filled: Run) -> None:
    hit = run_filled(*RECALL_DOG, "--json").document["hits"][0]
    why = hit["why"]
    assert why.keys() == {
        "contributions",
        "base",
        "similarity",
        "matched",
        "searched",
        "judged",
        "updates",
        "outdated_by",
    }
    assert set(why["matched"]) == {"dog", "call"}
    odds = hit["score"] / (1 - hit["score"])
    assert math.exp(sum(why["contributions"].values()) + why["base"]) == pytest.approx(odds, rel=0.01)


def test_common_words_are_shown_as_written_beside_the_origin(run_filled: Run) -> None:
    run_filled(
        "remember", "Rex sleeps in the kitchen", "--user", "alice", "--speaker", "Tom", "--at", "2025-03-01T09:30",
        "--provenance", '{"memory": "mem_source"}', "--id", "sleep",
    )  # fmt: skip
    out = run_filled("recall", "who sleeps in the kitchen?", "--user", "alice", "-k", "1", "--explain").out
    line = next(line for line in out.splitlines() if "from mem_source" in line)
    assert "sleeps, kitchen" in line
    assert "Tom · 2025-03-01 09:30" in line


def test_columns_of_all_retrievers_fit_the_screen(run: Run) -> None:
    options = ["--kind", "message", "--user", "mia", "--session", "s", "--at", "2025-03-01T09:30"]
    run("remember", "When does the ferry to the island leave?", *options, "--speaker", "Ben")
    run(
        "remember",
        "The ferry leaves at noon on Sunday",
        *options,
        "--speaker",
        "Ana",
        "--alias",
        "boat trip",
        "--id",
        "a",
    )
    run("remember", "The old ferry left at ten", "--user", "mia", "--id", "old")
    run("supersede", "old", "The ferry leaves at eleven now", "--id", "new", "--user", "mia")
    run("relate", "a", "new", "--user", "mia")
    question = "When did Ana say on 1 March 2025 that the ferry of the boat trip leaves?"
    result = run("recall", question, "--user", "mia", "--minimum", "0", "--explain")
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= 80
    heading = next(line for line in result.out.splitlines() if line.startswith("#") and "score" in line)
    assert {"meaning", "words", "similar", "time", "speaker", "name", "recency", "answer"} <= set(heading.split())
    assert "import" in result.out  # so many columns leave no room for the whole word
    assert any(line.count("+") >= 8 for line in result.out.splitlines())
    assert "similarity" in result.out


def test_an_empty_answer_says_how_to_see_the_nearest_memories(run_filled: Run) -> None:
    unrelated = ("recall", "the boiling point of tungsten", "--user", "alice")
    assert run_filled(*unrelated).out.splitlines()[0] == "nothing relevant enough; --minimum 0 shows the nearest"
    assert len(run_filled(*unrelated, "--minimum", "0", "--json").document["hits"]) == 3
    assert run_filled(*unrelated, "--minimum", "0.99").out.startswith("nothing relevant enough")
    assert run_filled("recall", "dog", "--user", "bob").out == "no memories in scope organization=default user=bob\n"
    assert run_filled("recall", "dog", "--among", "message", "--minimum", "0").out.startswith("nothing found\n")


def test_pinned_memories_are_shown_below_the_hits(run_filled: Run) -> None:
    out = run_filled(*RECALL_DOG).out
    hits, _, pinned = out.partition("\npinned\n")
    assert "Has a dog called Rex" in hits
    assert "Is allergic to nuts" not in hits
    assert "Is allergic to nuts" in pinned
    assert "#health" in pinned
    pinned_memories = run_filled(*RECALL_DOG, "--json").document["pinned"]
    assert [(memory["id"], memory["tags"]) for memory in pinned_memories] == [("nuts", ["health"])]
    run_filled("revise", "nuts", "--not-pinned", "--user", "alice")
    assert "pinned" not in run_filled(*RECALL_DOG).out
    assert run_filled(*RECALL_DOG, "--json").document["pinned"] == []


def test_why_not_says_what_excluded_a_memory(run_filled: Run) -> None:
    result = run_filled("why-not", "work", "what is the dog called?", "--user", "alice")
    assert result.code == 0
    first, *other_lines = result.out.splitlines()
    assert first.startswith("work: its score 0.")
    assert first.endswith("is below the minimum of 0.290")
    assert any(line.startswith("score 0.") and "place" in line for line in other_lines)
    assert any(line.split()[:1] == ["meaning"] and "meaning.own" in line for line in other_lines)
    assert any(line.startswith("the best hit is dog with 0.") and line.endswith(" ahead") for line in other_lines)
    assert any(line.startswith("--minimum 0.") and line.endswith(" would return it") for line in other_lines)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-k", "1", "--minimum", "0"], "and 1 were asked for"),
        (["--kind", "plan"], "the filter excludes it"),
        (["--tag", "home"], "it does not have all of the tags home"),
        (["--where", "text~cat"], "the filter excludes it"),
        (["--as-of", "3 days ago"], "it was stored only on"),
    ],
)
def test_why_not_asks_as_recall_would(run_filled: Run, options: list[str], reason: str) -> None:
    result = run_filled("why-not", "work", "what is the dog called?", *options, "--user", "alice", "--json")
    assert result.code == 0
    assert (result.document["returned"], result.document["memory"]["id"]) == (False, "work")
    assert result.document["winner"] is None or result.document["winner"]["memory"]["id"] == "dog"
    assert reason in result.document["reasons"][0]


def test_why_not_shows_the_place_of_a_returned_memory(run_filled: Run) -> None:
    document = run_filled("why-not", "dog", "what is the dog called?", "--user", "alice", "--json").document
    assert (document["returned"], document["place"]) == (True, 1)
    assert document["score"] == run_filled(*RECALL_DOG, "--json").document["hits"][0]["score"]
    assert document["why"]["contributions"]["words.own"] > 0
    assert "dog: it came back, at place 1" in run_filled("why-not", "dog", "a dog called Rex?", "--user", "alice").out


def test_why_not_of_an_unknown_memory_is_refused(run_filled: Run) -> None:
    assert run_filled("why-not", "nope", "dog?", "--user", "alice").code == 1
    assert run_filled("why-not", "dog", "dog?", "--user", "bob").code == 1
    assert run_filled("why-not", "dog", " ", "--user", "alice").code == 2
    assert run_filled("why-not", "dog", "dog?", "--user", "alice", "--recipe", "wrds").code == 2
