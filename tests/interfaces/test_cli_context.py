"""The command that makes a section for a prompt."""

import pytest

from tests.interfaces.conftest import Run


@pytest.fixture
def run_filled(run: Run) -> Run:
    run("remember", "Is allergic to nuts", "--id", "nuts", "--pinned", "--user", "alice", "--at", "2026-05-03T20:00Z")
    run("remember", "Has a dog called Rex " * 5, "--id", "dog", "--user", "alice", "--speaker", "Tom")
    return run


def test_the_text_alone_is_on_standard_output_and_is_not_wrapped(run_filled: Run) -> None:
    result = run_filled("context", "which animal lives with her?", "--user", "alice", "--minimum", "0")
    assert result.code == 0
    first, *body, last = result.out.splitlines()
    assert first.startswith("<remembered-")
    assert last.startswith("</remembered-")
    assert body[:2] == ["Pinned:", "- [3 May 2026] Is allergic to nuts"]
    assert body[3].startswith("- [said by Tom on ")
    assert len(body[3]) > 100
    assert "of 1,000 tokens · pinned 1 · recalled 1" in result.err


def test_the_context_is_printed_as_json(run_filled: Run) -> None:
    document = run_filled("context", "dog", "--user", "alice", "--budget", "300", "--minimum", "0", "--json").document
    assert document["text"].startswith("<remembered-")
    assert 0 < document["tokens"] <= 300
    assert [memory["id"] for memory in document["memories"]] == ["nuts", "dog"]
    assert [section["name"] for section in document["sections"]] == ["pinned", "recalled"]
    assert document["sections"][0].keys() == {"name", "title", "tokens", "shown", "left_out", "cut"}


def test_a_small_budget_leaves_memories_out_and_says_so(run_filled: Run) -> None:
    result = run_filled("context", "dog", "--user", "alice", "--budget", "3")
    assert (result.code, result.out) == (0, "")
    assert "0 of 3 tokens · pinned 0 of 1" in result.err


def test_dates_are_in_the_time_zone_asked_for(run_filled: Run) -> None:
    result = run_filled("context", "dog", "--user", "alice", "--timezone", "Asia/Tokyo")
    assert "- [4 May 2026] Is allergic to nuts" in result.out


def test_filters_narrow_the_context(run_filled: Run) -> None:
    document = run_filled("context", "dog", "--user", "alice", "--kind", "plan", "--json").document
    assert [memory["id"] for memory in document["memories"]] == ["nuts"]


@pytest.mark.parametrize("options", [["--budget", "0"], ["--budget", "many"], ["-k", "0"], ["--include", "world"]])
def test_wrong_input_is_refused(run_filled: Run, options: list[str]) -> None:
    result = run_filled("context", "dog", "--user", "alice", *options)
    assert (result.code, result.out) == (2, "")
