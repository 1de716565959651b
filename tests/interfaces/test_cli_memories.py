"""Every command on memories, with output for people and for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.conftest import Run


@pytest.fixture
def run_filled(run: Run) -> Run:
    """Three memories of alice's."""
    run(
        "remember",
        "Prefers backend work over design",
        "--id",
        "work",
        "--tag",
        "job",
        "--priority",
        "8",
        "--user",
        "alice",
    )
    run(
        "remember",
        "Has a dog called Rex",
        "--id",
        "dog",
        "--kind",
        "fact",
        "--metadata",
        '{"city": "Paris"}',
        "--user",
        "alice",
    )
    run("remember", "Drinks her tea without sugar", "--id", "tea", "--key", "drink", "--user", "alice")
    return run


def list_ids(document: Any) -> list[str]:
    memories = document.get("memories") or [hit["memory"] for hit in document.get("hits", [])]
    return [memory["id"] for memory in memories]


def test_results_across_users_show_whose_they_are(run: Run) -> None:
    run("remember", "The pump failed", "--user", "John Doe", "--project", "moon")
    run("remember", "The pump was repaired", "--user", "ada")
    for command in (["list"], ["recall", "the pump"]):
        out = " ".join(run(*command).out.split())
        assert "user John Doe · project moon" in out
        assert "user ada" in out
        assert "user" not in run(*command, "--user", "ada").out
    owners = [hit["memory"]["user_id"] for hit in run("recall", "the pump", "--json").document["hits"]]
    assert sorted(owners) == ["John Doe", "ada"]
    context = run("context", "the pump").out
    assert "of user John Doe" in context
    assert "of user ada" in context
    assert "of user" not in run("context", "the pump", "--user", "ada").out
    assert run("count", "--json").document == {"count": 2}
    assert run("count", "--user", "ada").out.strip() == "1"
    assert run("forget", "--user", "ada", "--everything", "--yes").code == 0
    assert run("count").out.strip() == "1"
    old = run("remember", "An old note", "--created-at", "2020-05-01", "--json").document["memories"][0]
    assert old["created_at"].startswith("2020-05-01")


def test_remember_shows_the_whole_id_and_the_tags(run: Run) -> None:
    result = run("remember", "Prefers backend work", "--tag", "work", "--tag", "taste", "--priority", "9")
    assert result.code == 0
    assert "Prefers backend work" in result.out
    memory = run("list", "--json").document["memories"][0]
    assert memory["id"] in result.out
    assert "priority 9 · #taste · #work" in result.out


def test_remember_keeps_every_field(run: Run) -> None:
    fields = [
        "--kind", "plan", "--importance", "0.25", "--confidence", "0.5", "--key", "k", "--id", "own",
        "--speaker", "Mia", "--source-agent", "planner", "--alias", "a", "--alias", "b", "--pinned",
        "--content", '{"n": 1}', "--provenance", '{"file": "x"}', "--metadata", '{"city": "Paris"}',
        "--at", "2025-03-01T09:30", "--valid-from", "2025-03-01", "--valid-to", "2025-04-01T00:00+07:00",
        "--expires", "2099-01-01", "--timezone", "Asia/Bangkok",
    ]  # fmt: skip
    memory = run("remember", "Something", *fields, "--json").document["memories"][0]
    expected = {
        "id": "own", "kind": "plan", "importance": 0.25, "confidence": 0.5, "key": "k", "speaker": "Mia",
        "source_agent": "planner", "aliases": ["a", "b"], "pinned": True, "content": {"n": 1},
        "provenance": {"file": "x"}, "metadata": {"city": "Paris"}, "occurred_at": "2025-03-01T02:30:00+00:00",
        "valid_from": "2025-02-28T17:00:00+00:00", "valid_to": "2025-03-31T17:00:00+00:00",
        "expires_at": "2098-12-31T17:00:00+00:00",
    }  # fmt: skip
    assert {name: memory[name] for name in expected} == expected


def test_repeating_a_write_under_its_key_adds_nothing(run: Run) -> None:
    command = ["remember", "It rains", "--kind", "conversation", "--idempotency-key", "monday", "--json"]
    assert list_ids(run(*command).document) == list_ids(run(*command).document)
    assert len(run("list", "--json").document["memories"]) == 1
    mismatch = run("remember", "It snows", "--idempotency-key", "monday", "--json")
    assert (mismatch.code, mismatch.error["kind"]) == (1, "IdempotencyMismatch")


def test_remember_takes_several_texts_and_lines_of_standard_input(run: Run) -> None:
    result = run("remember", "first", "-", "--json", typed="\ufeffsecond\n\n  third  \r\n")
    assert [memory["text"] for memory in result.document["memories"]] == ["first", "second", "third"]


def test_remember_names_one_memory_only(run: Run) -> None:
    result = run("remember", "a", "b", "--id", "x")
    assert (result.code, result.out) == (2, "")
    assert "--id names one memory, and there are 2 texts" in result.err
    assert not Path("everhold.db").exists()


def test_recall_finds_by_meaning_and_explains(run_filled: Run) -> None:
    result = run_filled(
        "recall", "which animal lives with her?", "--user", "alice", "-k", "2", "--minimum", "0", "--explain"
    )
    assert result.code == 0
    first = result.out.splitlines()[0]
    assert "Has a dog called Rex" in first
    for column in ("score", "meaning", "importance", "similarity", "words in common"):
        assert column in result.out
    assert "next page: --cursor" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_recall_with_json_contains_the_explanation(run_filled: Run) -> None:
    command = ("recall", "dog", "--user", "alice", "-k", "1", "--minimum", "0", "--json")
    document = run_filled(*command).document
    hit = document["hits"][0]
    assert hit["memory"]["id"] == "dog"
    assert hit["why"]["matched"] == ["dog"]
    assert hit["why"]["contributions"]["words.own"] > 0
    following = run_filled(*command, "--cursor", document["cursor"]).document
    assert following["hits"][0]["memory"]["id"] != "dog"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--kind", "fact"], {"dog"}),
        (["--kind", "fact", "--kind", "observation"], {"dog", "work", "tea"}),
        (["--tag", "job"], {"work"}),
        (["--where", "priority>=8"], {"work"}),
        (["--where", "metadata.city=Paris"], {"dog"}),
        (["--where", "text~TEA"], {"tea"}),
        (["--where", "id=dog", "--where", "id=tea"], {"dog", "tea"}),
        (["--where", "id!=dog"], {"work", "tea"}),
        (["--where", "key=null"], {"work", "dog"}),
        (["--where", 'key="drink"'], {"tea"}),
        (["--where", "pinned=no", "--where", "importance>0.3", "--where", "importance<0.5"], {"dog", "tea"}),
        (["--where", "created_at>=2020-01-01"], {"dog", "work", "tea"}),
        (["--where", '{"or": [{"tags": "job"}, {"metadata.city": "Paris"}]}'], {"work", "dog"}),
        (["--where", '{"not": {"created_at": {"<": "2020-01-01"}}}', "--where", "id!=dog"], {"work", "tea"}),
        (["--before", "1 hour ago"], set()),
        (["--after", "1 hour ago", "--before", "in 1 hour"], {"dog", "work", "tea"}),
    ],
)
def test_lists_and_recalls_are_narrowed_the_same_way(run_filled: Run, options: list[str], expected: set[str]) -> None:
    assert set(list_ids(run_filled("list", *options, "--user", "alice", "--json").document)) == expected
    command = ("recall", "what about her?", "--minimum", "0", "--user", "alice", "--json")
    assert set(list_ids(run_filled(*command, *options).document)) == expected


def test_recall_takes_a_minimum_and_a_recipe(run_filled: Run) -> None:
    document = run_filled(
        "recall", "dog", "--user", "alice", "--recipe", "words", "--minimum", "0.1", "--json"
    ).document
    assert list_ids(document) == ["dog"]


def test_recall_takes_the_name_of_a_model(run_filled: Run) -> None:
    document = run_filled("recall", "dog", "--user", "alice", "--model", "all-MiniLM-L6-v2", "--json").document
    assert list_ids(document) == ["dog"]
    unknown = run_filled("recall", "dog", "--user", "alice", "--model", "second")
    assert unknown.code == 2
    assert "no embedding model 'second' here; use one of 'all-MiniLM-L6-v2'" in unknown.err


def test_recall_takes_kinds_and_a_namespace(run_filled: Run) -> None:
    run_filled("session", "say", "Rex sleeps in the garden", "--user", "alice", "--session", "s1")
    question = ["recall", "where does Rex sleep?", "--user", "alice", "--minimum", "0"]
    result = run_filled(*question, "--among", "message", "--explain")
    assert "Rex sleeps in the garden" in result.out
    assert "Has a dog called Rex" not in result.out
    hits = run_filled(*question, "--among", "message", "--among", "memory", "--json").document["hits"]
    assert hits[0]["kind"] == "message"
    assert hits[0]["message"]["session_id"] == "s1"
    assert {hit["kind"] for hit in hits} == {"memory", "message"}
    assert "did you mean 'message'" in run_filled(*question, "--among", "mesage").err
    run_filled("remember", "Buy dog food", "--namespace", "short-term", "--user", "alice")
    for command in (["recall", "dog food", "--minimum", "0"], ["list"], ["context", "dog food"]):
        assert "Buy dog food" in run_filled(*command, "--namespace", "short-term", "--user", "alice").out
    assert "Buy dog food" not in run_filled("recall", "dog food", "--user", "alice", "--minimum", "0").out


def test_recall_includes_what_is_shared_only_when_asked(run_filled: Run) -> None:
    run_filled("remember", "The office dog is called Bruno", "--id", "shared")
    assert "shared" not in list_ids(run_filled("recall", "dog", "--user", "alice", "--json").document)
    document = run_filled("recall", "dog", "--user", "alice", "--include", "organization", "--json").document
    assert {"shared", "dog"} <= set(list_ids(document))


def test_another_scope_sees_nothing(run_filled: Run) -> None:
    for scope in (
        ["--user", "bob"],
        ["--org", "acme"],
        ["--user", "alice", "--project", "p"],
        ["--agent", "x"],
        ["--session", "s"],
    ):
        assert run_filled("list", *scope, "--json").document["memories"] == []
        assert run_filled("recall", "dog", *scope, "--json").document["hits"] == []
    assert "no memories in scope organization=default user=bob" in run_filled("recall", "dog", "--user", "bob").out
    assert "no memories" in run_filled("list", "--user", "bob").out


def test_list_continues_at_the_cursor(run_filled: Run) -> None:
    first = run_filled("list", "--limit", "2", "--oldest-first", "--json").document
    assert list_ids(first) == ["work", "dog"]
    second_page = run_filled("list", "--limit", "2", "--oldest-first", "--cursor", first["cursor"], "--json").document
    assert list_ids(second_page) == ["tea"]
    assert second_page["cursor"] is None
    assert first["cursor"] in run_filled("list", "--limit", "2", "--oldest-first").out.replace("\n", "")


def test_get_takes_an_id_or_a_key(run_filled: Run) -> None:
    assert run_filled("get", "work", "--json").document["tags"] == ["job"]
    assert run_filled("get", "drink", "--json").document["id"] == "tea"
    output = run_filled("get", "work", "--timezone", "Asia/Bangkok").out
    assert "Prefers backend work over design" in output
    assert "Asia/Bangkok" in output


def test_revise_keeps_earlier_revisions(run_filled: Run) -> None:
    revised = run_filled(
        "revise", "work", "Prefers design", "--priority", "3", "--reason", "she said so", "--json"
    ).document
    assert revised["memories"][0]["text"] == "Prefers design"
    assert revised["memories"][0]["priority"] == 3
    history = run_filled("history", "work", "--json").document["revisions"]
    assert [(revision["value"]["text"], revision["reason"]) for revision in history] == [
        ("Prefers backend work over design", "she said so")
    ]
    assert "she said so" in run_filled("history", "work").out
    assert "never changed" in run_filled("history", "dog").out


def test_earlier_knowledge_can_still_be_recalled(run_filled: Run) -> None:
    moment = run_filled("get", "dog", "--json").document["updated_at"]
    run_filled("revise", "dog", "Has a cat called Tom")
    command = ("recall", "pet", "--kind", "fact", "--minimum", "0", "--json")
    current_text = run_filled(*command).document["hits"][0]["memory"]["text"]
    earlier_text = run_filled(*command, "--as-of", moment).document["hits"][0]["memory"]["text"]
    assert (current_text, earlier_text) == ("Has a cat called Tom", "Has a dog called Rex")


def test_revise_removes_a_time(run: Run) -> None:
    run("remember", "Milk is in the fridge", "--id", "milk", "--expires", "in 2 weeks")
    assert run("get", "milk", "--json").document["expires_at"] is not None
    run("revise", "milk", "--expires", "never")
    assert run("get", "milk", "--json").document["expires_at"] is None


def test_a_supersession_is_undone(run_filled: Run) -> None:
    successor = run_filled("supersede", "tea", "Drinks coffee now", "--id", "coffee", "--json").document["memories"][0]
    assert successor["id"] == "coffee"
    assert "tea" not in list_ids(run_filled("recall", "what does she drink?", "--json").document)
    undone = run_filled("undo", "tea", "--json").document["change"]
    assert undone["kind"] == "supersede"
    assert list_ids(run_filled("recall", "what does she drink?", "-k", "1", "--json").document) == ["tea"]


def test_relations_are_created_and_followed(run_filled: Run) -> None:
    link = run_filled(
        "relate", "work", "dog", "--type", "derived_from", "--metadata", '{"sure": true}', "--json"
    ).document
    assert link["relationship"]["metadata"] == {"sure": True}
    run_filled("relate", "dog", "tea")
    near = run_filled("relations", "work", "--json").document["related"]
    assert [(relation["memory"]["id"], relation["depth"]) for relation in near] == [("dog", 1)]
    far = run_filled("relations", "work", "--depth", "2", "--json").document["related"]
    assert [(relation["memory"]["id"], relation["depth"]) for relation in far] == [("dog", 1), ("tea", 2)]
    output = run_filled("relations", "dog").out
    assert "← derived_from" in output
    assert "→ related_to" in output
    assert "nothing is related" in run_filled("relations", "work", "--type", "contradicts").out


def test_tags_are_added_and_removed(run_filled: Run) -> None:
    assert run_filled("tag", "dog", "pet", "home", "--json").document == {"id": "dog", "tags": ["home", "pet"]}
    assert run_filled("untag", "dog", "home", "--json").document["tags"] == ["pet"]
    assert run_filled("tags", "--json").document == {"tags": {"job": 1, "pet": 1}}
    assert "pet" in run_filled("tags").out
    assert "no tags" in run_filled("untag", "dog", "pet").out


def test_forget_shows_and_asks_first(run_filled: Run) -> None:
    result = run_filled("forget", "dog", typed="n\n")
    assert result.code == 1
    assert "Has a dog called Rex" in result.err
    assert "Forget this memory? [y/N]" in result.err
    silent = run_filled("forget", "dog")
    assert silent.code == 2
    assert "pass --yes" in silent.err
    assert len(run_filled("list", "--json").document["memories"]) == 3
    agreed = run_filled("forget", "dog", "--json", typed="y\n")
    assert (agreed.code, agreed.document["count"]) == (0, 1)
    assert set(list_ids(run_filled("list", "--json").document)) == {"work", "tea"}


def test_one_undo_restores_all_memories_of_a_deletion(run_filled: Run) -> None:
    run_filled("forget", "dog", "tea", "--yes")
    assert list_ids(run_filled("list", "--json").document) == ["work"]
    assert "undone: forget of" in run_filled("undo").out
    assert len(run_filled("list", "--json").document["memories"]) == 3


def test_forget_takes_a_filter_and_shows_a_preview(run_filled: Run) -> None:
    preview = run_filled("forget", "--where", "priority<8", "--preview", "--json").document
    assert (preview["count"], preview["preview"]) == (2, True)
    assert len(run_filled("list", "--json").document["memories"]) == 3
    forgotten = run_filled("forget", "--where", "priority<8", "--yes", "--json").document
    assert (forgotten["count"], forgotten["preview"]) == (2, False)
    assert list_ids(run_filled("list", "--json").document) == ["work"]
    assert "no memories" in run_filled("forget", "--where", "priority<8", "--yes").out


def test_forget_hard_also_purges_memories_that_were_forgotten_before(run_filled: Run) -> None:
    run_filled("forget", "dog", "--yes")
    assert run_filled("forget", "dog", "--hard", "--yes").code == 0
    assert run_filled("undo", "dog").code == 1
    assert run_filled("forget", "dog", "--hard", "--yes").code == 1


def test_an_unknown_id_forgets_nothing(run_filled: Run) -> None:
    assert run_filled("forget", "dog", "nope", "--yes").code == 1
    assert len(run_filled("list", "--json").document["memories"]) == 3


def test_markup_in_a_text_is_shown_as_text(run: Run) -> None:
    run("remember", "[bold]no markup[/bold] \x1b[31mand no escapes", "--id", "x")
    output = run("list").out + run("get", "x").out + run("recall", "markup").out
    assert "[bold]no markup[/bold]" in output
    assert "\x1b" not in output


def test_the_store_comes_from_a_path_a_url_or_a_file_of_settings(run: Run, tmp_path: Path) -> None:
    run("remember", "kept", "--store", "notes.db")
    Path("my.yaml").write_text("storage: notes.db\ntimezone: Asia/Bangkok\n", encoding="utf-8")
    for store in ("notes.db", f"sqlite:///{tmp_path}/notes.db".replace("///", "////"), "my.yaml"):
        assert len(run("list", "--store", store, "--json").document["memories"]) == 1
    [memory] = run("list", "--store", "my.yaml", "--json").document["memories"]
    assert "Asia/Bangkok" in run("get", memory["id"], "--store", "my.yaml").out


def test_texts_in_other_languages_are_shown_unchanged(run: Run) -> None:
    text = "東京でกาแฟ ☕ один 😀"
    run("remember", text)
    result = run("list", "--json")
    assert text in result.out
    assert json.loads(result.out)["memories"][0]["text"] == text


def test_a_revision_of_another_version_than_expected_is_refused(run_filled: Run) -> None:
    first = run_filled("get", "work", "--json").document
    assert first["version"] == 1
    run_filled("revise", "work", "Prefers design", "--expected-version", "1")
    assert "version 2" in run_filled("list").out
    for command in (
        ("revise", "work", "Prefers sales", "--expected-version", "1"),
        ("supersede", "work", "Prefers sales", "--expected-version", "1"),
        ("forget", "work", "--yes", "--expected-version", "1"),
    ):
        stale = run_filled(*command, "--json")
        assert (stale.code, stale.error["kind"]) == (1, "StaleVersion")
        assert stale.error["error"].endswith(
            "is at version 2, not 1; read it again and retry with --expected-version 2"
        )
    assert run_filled("forget", "work", "dog", "--yes", "--expected-version", "2").code == 2
    assert run_filled("forget", "work", "--yes", "--expected-version", "2").code == 0
    assert run_filled("get", "work").code == 1


def test_an_id_may_be_shortened(run: Run) -> None:
    run("remember", "Has a dog", "--id", "house-dog")
    run("remember", "Has a cat", "--id", "house-cat")
    run("remember", "Has a hen", "--id", "barn-hen", "--key", "hous")
    assert run("get", "house-d", "--json").document["text"] == "Has a dog"
    # A whole key is not taken for the beginning of an id.
    assert run("get", "hous", "--json").document["text"] == "Has a hen"
    assert run("relate", "house-d", "house-c", "--json").document["relationship"]["target_memory_id"] == "house-cat"
    ambiguous = run("get", "house")
    assert ambiguous.code == 2
    assert "several ids begin with 'house': house-cat, house-dog; type more characters" in ambiguous.err
    assert "no memory 'hou'" in run("get", "hou").err
    assert run("forget", "barn", "--yes", "--json").document["count"] == 1
