"""`everhold add`, `everhold messages` and `--only session`."""

import json
from pathlib import Path

import pytest

from tests.interfaces.conftest import Run

pytestmark = pytest.mark.model
CHAT = ("--user", "alice", "--session", "monday")
LATER = ("--user", "alice", "--session", "tuesday")
TURNS = [
    {"role": "user", "content": "I live in Lisbon.", "name": "Alice", "id": "m1", "created_at": "2024-05-01 10:00"},
    {"role": "assistant", "content": "A fine city.", "id": "m2"},
]


def test_messages_are_added_from_a_file_and_standard_input(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text("\n".join(map(json.dumps, TURNS)) + "\n\n", "utf-8")
    added = run("add", str(file), *CHAT)
    assert (added.code, added.err) == (0, "")
    assert added.out.index("A fine city.") < added.out.index("1 fact") < added.out.index("Alice lives in Lisbon.")
    repeated = run("add", str(file), *CHAT, "--json").document
    assert [message["id"] for message in repeated["messages"]] == ["m1", "m2"]
    assert repeated["messages"][0]["created_at"].startswith("2024-05-01T10:00")
    assert [memory["provenance"]["message"] for memory in repeated["memories"]] == ["m1"]
    typed = run("add", "-", "--conversation", "work", *CHAT, "--json", typed='I work as a nurse.\n{"text": "Bye"}\n')
    assert [message["conversation_id"] for message in typed.document["messages"]] == ["work", "work"]
    assert run("add", *CHAT, typed="Hello\n").out.count("no facts") == 1
    assert run("count", *LATER, "--json").document == {"count": 2}
    assert "Alice lives in Lisbon." in run("recall", "Where does Alice live?", *LATER).out


def test_wrong_messages_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(b"\xff\xfe")
    for arguments, typed, words in (
        ((), "", "there are no messages to add"),
        ((), '{"text": 1', "message 1"),
        ((), '{"text": "x", "rol": "user"}', "rol"),
        (("bad.jsonl",), "", "is not UTF-8"),
        (("missing.jsonl",), "", "missing.jsonl"),
    ):
        result = run("add", *arguments, *CHAT, typed=typed)
        assert (result.code, words in result.err) == (2, True), result.err
    assert "names no session" in run("add", "--user", "alice", typed="Hello").err


def test_messages_are_deleted_and_restored(run: Run) -> None:
    run("add", *CHAT, typed="\n".join(map(json.dumps, TURNS)))
    deleted = run("messages", "delete", "m2", *CHAT)
    assert (deleted.code, "1 message deleted" in deleted.out) == (0, True)
    assert "A fine city." not in run("session", "show", *CHAT).out
    assert "1 message restored" in run("messages", "restore", "m2", *CHAT).out
    assert "A fine city." in run("session", "show", *CHAT).out
    assert run("messages", "delete", "m1", "--hard", *CHAT, typed="n\n").code == 1
    deletion = run("messages", "delete", "m1", "m2", "--hard", "--yes", *CHAT, "--json").document
    assert [message["id"] for message in deletion["messages"]] == ["m1", "m2"]
    assert run("count", *CHAT, "--json").document == {"count": 0}
    assert run("messages", "delete", "m1", *CHAT).code == 1


def test_forgetting_names_the_message_that_contains_the_memory(run: Run) -> None:
    added = run("add", *CHAT, "--json", typed="\n".join(map(json.dumps, TURNS))).document
    [fact] = added["memories"]
    deleted = run("messages", "delete", "m1", *CHAT)
    assert f"`everhold forget {fact['id']}` forgets" in " ".join(deleted.out.split())
    run("messages", "restore", "m1", *CHAT)
    forgotten = run("forget", fact["id"], "--yes", *CHAT)
    assert "`everhold messages delete m1` deletes" in " ".join(forgotten.out.split())
    run("undo", *CHAT)
    assert run("forget", fact["id"], "--preview", *CHAT, "--json").document["messages"] == ["m1"]
    assert run("forget", fact["id"], "--yes", "--with-messages", *CHAT, "--json").document["messages"] == []
    assert "Lisbon" not in run("session", "show", *CHAT).out
    result = run("forget", "--everything", "--with-messages", *CHAT)
    assert (result.code, "--with-messages is for memories that are named" in result.err) == (2, True)


def test_recall_is_limited_to_the_session(run: Run) -> None:
    memory = run("remember", "The garage code is 4711", *CHAT, "--json").document["memories"][0]
    run("remember", "The garage is locked", *LATER)
    arguments = ("garage code", *LATER, "--minimum", "0", "--json")
    assert len(run("recall", *arguments).document["hits"]) == 2
    assert len(run("recall", *arguments, "--only", "session").document["hits"]) == 1
    assert "4711" in run("context", "garage code", *LATER).out
    assert "4711" not in run("context", "garage code", "--only", "session", *LATER).out
    assert "not written in session" in run("why-not", memory["id"], "garage", "--only", "session", *LATER).out
    assert [run("count", *LATER, *only, "--json").document["count"] for only in ((), ("--only", "session"))] == [2, 1]
    assert "4711" not in run("list", "--only", "session", *LATER).out
    result = run("recall", "garage", "--user", "alice", "--only", "session")
    assert (result.code, "name one with --session ID" in result.err) == (2, True)
    assert "only is 'user'" in run("count", "--only", "user", *LATER).err
    assert run("forget", "--everything", "--only", "session", "--yes", *LATER, "--json").document["count"] == 1
    assert run("count", *LATER, "--json").document == {"count": 1}
