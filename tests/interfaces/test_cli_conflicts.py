"""Conflicts, on the command line."""

from tests.interfaces.conftest import Run


def test_conflicts_are_listed_and_resolved(run: Run) -> None:
    for agent, town in (("a", "Oslo"), ("b", "Bergen")):
        run("remember", f"I live in {town}", "--kind", "fact", "--user", "alice", "--agent", agent)
    assert "no conflicts" in run("conflicts", "--user", "alice").out
    run("maintain", "consolidate")
    output = run("conflicts", "--user", "alice").out
    assert "Oslo" in output
    assert "Bergen" in output
    [conflict] = run("conflicts", "--user", "alice", "--json").document["conflicts"]
    failed = run("resolve", conflict["id"], "--keep", "nothing", "--user", "alice")
    assert (failed.code, "not a memory of this conflict" in failed.err) == (2, True)
    assert "no conflict 'x'" in run("resolve", "x", "--user", "alice").err
    newer_id = conflict["newer"]["id"]
    resolved = run("resolve", conflict["id"], "--keep", newer_id, "--user", "alice", "--json").document
    assert resolved["kept"] == newer_id
    assert run("conflicts", "--user", "alice", "--json").document == {"conflicts": []}
