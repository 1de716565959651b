"""`everhold agent` and `everhold state`: an agent's life, its files and its state."""

import json
from pathlib import Path

import pytest

from tests.interfaces.conftest import Run

pytestmark = pytest.mark.model
CODER = ("--agent", "coder")


def test_an_agent_is_created_changed_and_deleted(run: Run) -> None:
    created = run("agent", "create", *CODER, "--system", "Be brief", "--type", "planner", "--mcp-tool", "github",
                  "--config", '{"max_steps": 5}', "--tool-rules", '[{"first": "plan"}]')  # fmt: skip
    assert (created.code, created.out, created.err) == (0, "created agent coder\n", "")
    agent = run("agent", "show", *CODER, "--json").document["agent"]
    assert (agent["system"], agent["agent_type"], agent["mcp_tools"]) == ("Be brief", "planner", ["github"])
    assert (agent["config"], agent["tool_rules"]) == ({"max_steps": 5}, [{"first": "plan"}])
    assert "Be brief" in run("agent", "show", *CODER).out
    assert (
        run("agent", "update", *CODER, "--topic", "parsers", "--expected-version", "1").out == "updated agent coder\n"
    )
    result = run("agent", "update", *CODER, "--topic", "late", "--expected-version", "1")
    assert result.code == 1
    assert "at version 2, not 1; read it again and retry with --expected-version 2" in result.err
    assert run("agent", "pause", *CODER).out == "agent coder is paused\n"
    assert [row["id"] for row in run("agent", "list", "--status", "paused", "--json").document["agents"]] == ["coder"]
    assert run("agent", "resume", *CODER).out == "agent coder is active\n"
    assert run("agent", "clone", "twin", *CODER, "--name", "Twin").out == "created agent twin\n"
    assert run("agent", "terminate", *CODER).out == "agent coder is terminated\n"
    assert "coder" in run("agent", "list").out
    assert "agents" in run("agent", "delete", *CODER, "--preview").out
    assert run("agent", "delete", *CODER, "--yes").code == 0
    assert [row["id"] for row in run("agent", "list", "--json").document["agents"]] == ["twin"]
    assert [row["id"] for row in run("agent", "list", "--deleted", "--json").document["agents"]] == ["coder"]
    assert run("agent", "restore", *CODER).out == "restored agent coder\n"


def test_wrong_input_is_refused(run: Run) -> None:
    run("agent", "create", *CODER)
    missing = run("agent", "show")
    assert (missing.code, missing.err) == (2, "everhold: the scope names no agent; name one with --agent ID\n")
    assert run("agent", "show", "--agent", "ghost").code == 1
    assert run("agent", "list", "--status", "asleep").code == 2
    assert run("agent", "update", *CODER, "--config", "[1]").code == 2
    assert run("agent", "update", *CODER).code == 2
    assert run("state", "set", "{", *CODER).code == 2


def test_an_agent_is_exported_and_imported(run: Run, tmp_path: Path) -> None:
    run("agent", "create", *CODER, "--system", "Be brief")
    run("state", "set", '{"step": 1}', *CODER)
    run("remember", "Tests come first", *CODER)
    written = run("agent", "export", "coder.json", "--memories", *CODER)
    assert written.out == "wrote agent coder to coder.json: 0 blocks, 0 tools, 0 messages, 1 memories\n"
    assert run("agent", "export", "coder.json", *CODER).code == 2
    assert json.loads((tmp_path / "coder.json").read_text("utf-8"))["memories"][0]["text"] == "Tests come first"
    imported = run("agent", "import", "coder.json", "--org", "acme", "--json").document
    assert (imported["agent"]["id"], imported["memories"], imported["has_state"]) == ("coder", 1, True)
    assert run("count", "--org", "acme", *CODER, "--json").document["count"] == 1
    letta = Path(__file__).parents[1] / "fixtures" / "agents" / "letta.af"
    assert "skipped: 1 sources" in run("agent", "import", str(letta)).out


def test_a_state_is_written_read_and_deleted(run: Run) -> None:
    run("agent", "create", *CODER)
    nothing = run("state", "show", *CODER)
    assert (nothing.code, nothing.out) == (1, "no state\n")
    stored = run("state", "set", '{"step": 1}', *CODER, "--expires", "1h", "--metadata", '{"by": "me"}')
    assert stored.out.startswith('{"step":1}\nversion 1, expires ')
    assert run("state", "set", "[]", *CODER, "--session", "s1", "--json").document["state"]["session_id"] == "s1"
    assert run("state", "show", *CODER, "--json").document["state"]["metadata"] == {"by": "me"}
    assert run("state", "set", "2", *CODER, "--expected-version", "0").code == 1
    assert run("state", "clear", *CODER, "--expected-version", "1").out == "cleared the state\n"
    assert run("state", "clear", *CODER).out == "there was no state\n"
    assert run("state", "show", *CODER, "--session", "s1").out == "[]\nversion 1\n"
