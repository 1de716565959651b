"""The command that shows events."""

import json

from tests.interfaces.conftest import Run


def test_events_are_shown_and_continue_from_a_number(run: Run) -> None:
    run("remember", "Likes tea", "--user", "alice")
    result = run("events", "--user", "alice")
    assert "memory" in result.out
    [first, second] = json.loads(run("events", "--user", "alice", "--json").out)["events"]
    assert (first["entity"], second["entity"], second["operation"]) == ("user", "memory", "put")
    later = run("events", "--user", "alice", "--after", str(second["number"]))
    assert later.out.strip() == "no events"


def test_a_negative_number_is_refused(run: Run) -> None:
    run("remember", "Likes tea", "--user", "alice")
    result = run("events", "--after", "-1")
    assert result.code == 2
    assert "after is -1" in result.err
