"""`everhold session`: say, show, list, end."""

import pytest

from tests.interfaces.conftest import Run

pytestmark = pytest.mark.model
CHAT = ("--user", "alice", "--session", "s1")


def test_conversations_of_a_session(run: Run) -> None:
    place = ["--user", "ada", "--session", "s1"]
    run("session", "say", "Hello", *place, "--conversation", "about tea", "--created-at", "2020-05-01")
    run("session", "say", "Bye", *place)
    shown = run("session", "show", *place, "--conversation", "about tea", "--json").document["messages"]
    assert [(one["text"], one["created_at"][:10]) for one in shown] == [("Hello", "2020-05-01")]
    assert "about tea" in run("session", "conversations", *place).out
    assert len(run("session", "conversations", *place, "--json").document["conversations"]) == 1


def test_a_conversation(run: Run) -> None:
    told = run("session", "say", "Hello", *CHAT)
    assert (told.code, told.err) == (0, "")
    assert "Hello" in told.out
    assert run("session", "say", "Hello, Alice", "--role", "assistant", "--name", "helper", *CHAT).code == 0
    shown = run("session", "show", *CHAT)
    assert shown.code == 0
    assert shown.out.index("alice") < shown.out.index("Hello") < shown.out.index("Hello, Alice")
    assert "helper" in shown.out
    listed = run("session", "list", "--user", "alice")
    assert "s1" in listed.out
    assert "alice" in listed.out
    ended = run("session", "end", *CHAT)
    assert (ended.code, ended.out) == (0, "session s1 has ended\n")
    assert "(ended)" in run("session", "list").out
    refused = run("session", "say", "more", *CHAT)
    assert refused.code == 1
    assert "has ended" in refused.err


def test_for_programs(run: Run) -> None:
    said = run(
        "session", "say", "-", "--metadata", '{"client": "web"}', *CHAT, "--json", typed="one\ntwo\nthree\n"
    ).document
    assert [one["text"] for one in said["messages"]] == ["one", "two", "three"]
    assert said["messages"][0]["metadata"] == {"client": "web"}
    page = run("session", "show", "--limit", "2", *CHAT, "--json").document
    assert [one["text"] for one in page["messages"]] == ["three", "two"]
    assert page["session"]["id"] == "s1"
    rest = run("session", "show", "--cursor", page["cursor"], *CHAT, "--json").document
    assert ([one["text"] for one in rest["messages"]], rest["cursor"]) == (["one"], None)
    first = run("session", "show", "--oldest-first", "--limit", "1", *CHAT, "--json").document
    assert [one["text"] for one in first["messages"]] == ["one"]
    assert "next page: --cursor" in run("session", "show", "--limit", "1", *CHAT).out
    assert [one["id"] for one in run("session", "list", "--json").document["sessions"]] == ["s1"]
    assert run("session", "end", *CHAT, "--json").document["session"]["ended_at"]


def test_what_is_refused(run: Run) -> None:
    assert run("session", "say", "x").code == 2
    assert "names no session" in run("session", "show").err
    assert "no session 's1'" in run("session", "show", *CHAT).err
    assert "nothing to say" in run("session", "say", "-", *CHAT).err
    assert "no sessions" in run("session", "list").out


@pytest.mark.usefixtures("empty_store")
def test_doctor_names_the_cache(run: Run) -> None:
    assert "in process" in run("doctor", "--json").document["parts"]["sessions"]
