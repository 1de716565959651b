"""`everhold block`: core memory on the command line."""

import pytest

from tests.interfaces.conftest import Run

pytestmark = pytest.mark.model
CODER = ("--agent", "coder", "--user", "alice")


def test_a_block_is_created_changed_and_deleted(run: Run) -> None:
    created = run("block", "create", "human", "Likes tea", "--id", "b1", "--limit", "60", *CODER)
    assert (created.code, created.out, created.err) == (0, "created block human (b1)\n", "")
    appended = run("block", "append", "human", "-", *CODER, typed="Lives in Lisbon\nWorks at night\n")
    assert appended.out == "block human is at version 2, 40 of 60 characters\n"
    run("block", "replace", "human", "tea", "coffee", "--reason", "said so", *CODER)
    run("block", "lines", "human", "3", "3", "Works by day", *CODER)
    output = run("block", "show", "human", *CODER).out
    assert "Likes coffee" in output
    assert "Works by day" in output
    assert "41 of 60" in output
    assert "coder" in output
    assert "said so" in run("block", "history", "human", *CODER).out
    assert "-Works at night\n+Works by day\n" in run("block", "diff", "human", *CODER).out
    assert run("block", "undo", "human", *CODER).out == "block human is at version 5, 43 of 60 characters\n"
    assert "Works at night" in run("block", "render", "--numbered", *CODER).out
    assert run("block", "write", "human", "Likes water", "--expected-version", "5", *CODER).code == 0
    assert run("block", "update", "human", "--limit", "100", "--metadata", '{"n": 1}', *CODER).code == 0
    assert "Likes water" in run("block", "list", *CODER).out
    assert "Likes water" in run("recall", "what does she like", "--among", "block", "--minimum", "0", *CODER).out
    assert "blocks" in run("block", "delete", "human", "--preview", *CODER).out
    assert "deleted block human" in run("block", "delete", "human", "--yes", *CODER).out
    assert "no blocks" in run("block", "list", *CODER).out
    assert run("block", "restore", "human", *CODER).out == "restored block human\n"


def test_blocks_are_shared_and_copied_from_templates(run: Run) -> None:
    run("block", "create", "persona", "You are kind", "--as-template", "--template-name", "kind")
    run("block", "create", "--template", "kind", "--id", "p1", *CODER)
    assert "You are kind" in run("block", "list", "--templates").out
    attached = run("block", "attach", "p1", "--agent", "tester", "--user", "alice")
    assert attached.out == "block persona is attached to agent tester\n"
    assert run("block", "show", "p1", "--json").document["agents"] == ["coder", "tester"]
    run("block", "detach", "p1", "--agent", "coder")
    assert run("block", "show", "p1", "--json").document["agents"] == ["tester"]


def test_the_shell_shows_blocks(run: Run) -> None:
    run("block", "create", "human", "Likes tea", *CODER)
    assert "Likes tea" in run("shell", *CODER, typed="/block list\n").out
    assert "no blocks" in run("shell", "--agent", "tester", typed="/block list\n").out


def test_wrong_input_is_refused(run: Run) -> None:
    run("block", "create", "human", "a a", "--limit", "3", *CODER)
    too_long = run("block", "append", "human", "too long", *CODER)
    assert too_long.code == 2
    assert "would hold 12 characters, 9 over its limit of 3; shorten it or raise the limit" in too_long.err
    assert "--every" in run("block", "replace", "human", "a", "b", *CODER).err
    missing = run("block", "show", "persona", *CODER)
    assert (missing.code, "`everhold block list` lists them" in missing.err) == (1, True)
    stale = run("block", "write", "human", "b", "--expected-version", "9", *CODER)
    assert "--expected-version 1" in stale.err
    assert run("block", "attach", "human", "--user", "alice").code == 2
    assert "names no agent" in run("block", "render").err
