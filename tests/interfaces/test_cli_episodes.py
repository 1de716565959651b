"""Episodes on the command line."""

from tests.interfaces.conftest import Run

CHAT = ("--user", "alice", "--session", "s1")
ALICE = ("--user", "alice")


def test_a_year_quotes_its_messages(run: Run) -> None:
    run("session", "say", "We adopted a greyhound called Juniper", *CHAT)
    run("session", "say", "Her vaccination is in Leeds", *CHAT)
    [year] = run("episodes", "list", "--level", "year", *ALICE, "--json").document["episodes"]
    details = run("episodes", "show", year["id"], *ALICE, "--json").document
    assert [message["text"] for message in details["messages"]] == [quote["text"] for quote in year["quotes"]]
    assert "Juniper" in run("episodes", "list", *ALICE).out
    assert run("episodes", "summary", "--budget", "60", *ALICE, "--json").document["tokens"] <= 60
    assert "Leeds" in run("episodes", "summary", *ALICE).out
    assert "nothing fits 2 tokens" in run("episodes", "summary", "--budget", "2", *ALICE).out


def test_wrong_input_is_explained(run: Run) -> None:
    run("session", "say", "Hello", *CHAT)
    assert "choose from" in run("episodes", "list", "--level", "decade", *ALICE).err
    assert "no episode 'nope'" in run("episodes", "show", "nope", *ALICE).err
