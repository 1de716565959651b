"""`everhold session`: the life of a session, its messages, and how both are shown."""

import pytest

from tests.interfaces.conftest import Run

pytestmark = pytest.mark.model
CHAT = ("--user", "alice", "--session", "s1")


def test_conversations_of_a_session_are_listed(run: Run) -> None:
    scope = ["--user", "ada", "--session", "s1"]
    run("session", "say", "Hello", *scope, "--conversation", "about tea", "--created-at", "2020-05-01")
    run("session", "say", "Bye", *scope)
    messages = run("session", "show", *scope, "--conversation", "about tea", "--json").document["messages"]
    assert [(message["text"], message["created_at"][:10]) for message in messages] == [("Hello", "2020-05-01")]
    assert "about tea" in run("session", "conversations", *scope).out
    assert len(run("session", "conversations", *scope, "--json").document["conversations"]) == 1


def test_messages_are_said_and_shown(run: Run) -> None:
    result = run("session", "say", "Hello", *CHAT)
    assert (result.code, result.err) == (0, "")
    assert "Hello" in result.out
    assert run("session", "say", "Hello, Alice", "--role", "assistant", "--name", "helper", *CHAT).code == 0
    listing = run("session", "show", *CHAT)
    assert listing.code == 0
    assert listing.out.index("alice") < listing.out.index("Hello") < listing.out.index("Hello, Alice")
    assert "helper" in listing.out
    listed = run("session", "list", "--user", "alice")
    assert "s1" in listed.out
    assert "alice" in listed.out
    ended = run("session", "end", *CHAT)
    assert (ended.code, ended.out) == (0, "session s1 has ended\n")
    assert "(ended)" in run("session", "list").out
    refusal = run("session", "say", "more", *CHAT)
    assert refusal.code == 1
    assert "has ended" in refusal.err


def test_sessions_are_printed_as_json(run: Run) -> None:
    document = run(
        "session", "say", "-", "--metadata", '{"client": "web"}', *CHAT, "--json", typed="one\ntwo\nthree\n"
    ).document
    assert [message["text"] for message in document["messages"]] == ["one", "two", "three"]
    assert document["messages"][0]["metadata"] == {"client": "web"}
    page = run("session", "show", "--limit", "2", *CHAT, "--json").document
    assert [message["text"] for message in page["messages"]] == ["three", "two"]
    assert page["session"]["id"] == "s1"
    second_page = run("session", "show", "--cursor", page["cursor"], *CHAT, "--json").document
    assert ([message["text"] for message in second_page["messages"]], second_page["cursor"]) == (["one"], None)
    first = run("session", "show", "--oldest-first", "--limit", "1", *CHAT, "--json").document
    assert [message["text"] for message in first["messages"]] == ["one"]
    assert "next page: --cursor" in run("session", "show", "--limit", "1", *CHAT).out
    assert [session["id"] for session in run("session", "list", "--json").document["sessions"]] == ["s1"]
    assert run("session", "end", *CHAT, "--json").document["session"]["ended_at"]


@pytest.mark.usefixtures("empty_store")
def test_wrong_input_is_refused(run: Run) -> None:
    assert run("session", "say", "x").code == 2
    assert "names no session" in run("session", "show").err
    assert "no session 's1'" in run("session", "show", *CHAT).err
    assert "nothing to say" in run("session", "say", "-", *CHAT).err
    assert "no sessions" in run("session", "list").out


@pytest.mark.usefixtures("empty_store")
def test_doctor_names_the_cache(run: Run) -> None:
    assert "in process" in run("doctor", "--json").document["parts"]["sessions"]


def test_a_session_is_opened_changed_and_ended(run: Run) -> None:
    opened = run("session", "open", "--title", "Roses", "--type", "group", "--metadata", '{"a": 1}', *CHAT)
    assert (opened.code, opened.out) == (0, "session s1 is open\n")
    run("session", "say", "Hello", *CHAT)
    assert run("session", "end", "--summary", "Greetings", *CHAT).out == "session s1 has ended\n"
    result = run("session", "say", "more", *CHAT)
    assert (result.code, "`everhold session reopen`" in result.err) == (1, True)
    assert run("session", "archive", *CHAT).out == "session s1 is archived\n"
    assert "s1 (archived)" in run("session", "list").out
    reopened = run("session", "reopen", *CHAT, "--json").document["session"]
    assert (reopened["ended_at"], reopened["summary"], reopened["title"]) == (None, "Greetings", "Roses")
    preview = run("session", "delete", "--preview", *CHAT, "--json").document
    assert (preview["preview"], preview["rows"]["sessions"], preview["rows"]["messages"]) == (True, 1, 1)
    assert run("session", "delete", *CHAT, typed="n\n").code == 1
    assert "deleted session s1; `restore` undoes that" in run("session", "delete", "--yes", *CHAT).out
    assert run("session", "show", *CHAT).code == 1
    assert "has been deleted; restore it, or delete it for good" in run("session", "delete", "-y", *CHAT).err
    assert run("session", "restore", *CHAT).out == "restored session s1\n"
    assert run("session", "delete", "--hard", "-y", *CHAT).code == 0
    assert run("session", "restore", *CHAT).code == 1
    for command in ("open", "end", "reopen", "archive", "delete", "restore"):
        assert run("session", command, "--user", "alice").code == 2, "no session is named"


def test_messages_with_content_are_shown(run: Run) -> None:
    calls = run(
        "session", "say", "--role", "assistant", "--tool-calls", '[{"id": "c1"}]', "--id", "m1", *CHAT, "--json"
    ).document["messages"]
    assert (calls[0]["tool_calls"], calls[0]["id"]) == ([{"id": "c1"}], "m1")
    content = '{"type": "text", "text": "The pump is broken"}'
    result = run("session", "say", "--content", content, "--sender", "bob", "--otid", "o1", *CHAT, "--json")
    assert result.document["messages"][0]["text"] == "The pump is broken"
    assert "bob" in run("session", "show", *CHAT).out
    for arguments in (["--content", "{"], ["--content", "5"], ["--tool-calls", "{}"], [], ["a", "b", "--id", "m2"]):
        assert run("session", "say", *arguments, *CHAT).code == 2


def test_messages_are_shown_around_one_and_searched(run: Run) -> None:
    lines = ["Good morning", "Which roses shall I buy?", "The red ones", "Thanks", "Good night"]
    run("session", "say", "-", *CHAT, "--agent", "helper", typed="\n".join(lines))
    [hit] = run("messages", "search", "buying roses", "-k", "1", "--neighbours", "1", *CHAT, "--json").document["hits"]
    texts = [message["text"] for message in (*hit["before"], hit["message"], *hit["after"])]
    assert texts == ["Good morning", "Which roses shall I buy?", "The red ones"]
    around = run("session", "show", "--around", hit["message"]["id"], "--limit", "3", *CHAT)
    assert "Good morning" in around.out
    assert "the other way: --cursor" in around.out
    result = run("messages", "search", "buying roses", "--where", "role=user", *CHAT)
    assert "#1 of session s1" in result.out
    assert "no messages found" in run("messages", "search", "roses", "--after", "2999-01-01", *CHAT).out
    recent = run("messages", "recent", "-n", "2", "--agent", "helper", "--json").document["messages"]
    assert [message["text"] for message in recent] == ["Good night", "Thanks"]
    assert "s1" in run("messages", "recent").out
    assert "no messages" in run("messages", "recent", "--agent", "nobody").out
    assert run("messages", "search", "roses", "--neighbours", "x", *CHAT).code == 2
