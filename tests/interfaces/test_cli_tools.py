"""The command `everhold tool`: create, list, check, attach, render and delete tools."""

import json
from pathlib import Path

import pytest

from tests.interfaces.conftest import Run

pytestmark = pytest.mark.model
CODER = ("--agent", "coder")
DEFINITION = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Return the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
            "required": ["city"],
        },
    },
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "weather.json"
    path.write_text(json.dumps(DEFINITION), "utf-8")
    return str(path)


def test_a_tool_is_created_changed_and_deleted(run: Run, file: str) -> None:
    created = run("tool", "create", file, "--tag", "sky", "--id", "t1", "--attach", *CODER)
    assert (created.code, created.out) == (0, "tool get_weather is at version 1 (t1)\n")
    assert run("tool", "create", file, "--replace", "--attach", *CODER).code == 0
    listed = run("tool", "list", *CODER).out
    assert "get_weather" in listed
    assert "city, days" in listed
    output = run("tool", "show", "get_weather").out
    assert '"required"' in output
    assert "sky" in output
    assert json.loads(run("tool", "check", "get_weather", '{"city": "Rome"}').out) == {"city": "Rome", "days": 3}
    result = run("tool", "check", "get_weather", '{"days": "x"}')
    assert result.code == 2
    assert "days is 'x', and city is missing; pass a whole number for days, and pass text for city" in result.err
    assert run("tool", "update", "t1", "--description", "Better.", "--expected-version", "1").code == 0
    assert run("tool", "update", "t1", "--tag", "x", "--expected-version", "1").code == 1
    assert "no longer has" in run("tool", "detach", "get_weather", *CODER).out
    assert run("tool", "list", *CODER).out == "no tools\n"
    assert "get_weather" in run("tool", "list", "--all", *CODER).out
    assert run("tool", "attach", "t1", *CODER).out == "agent coder has tool get_weather\n"
    assert run("tool", "delete", "get_weather", "--yes").code == 0
    assert run("tool", "show", "get_weather").code == 1
    assert run("tool", "restore", "get_weather").out == "restored tool get_weather\n"


def test_tools_are_printed_as_json(run: Run) -> None:
    created = run(
        "tool", "create", "-", "--name", "weather", "--attach", *CODER, "--json", typed=json.dumps(DEFINITION)
    )
    assert created.document["tool"]["name"] == "weather"
    openai = run("tool", "render", *CODER, "--json").document
    assert openai == [{"type": "function", "function": {**DEFINITION["function"], "name": "weather"}}]  # type: ignore[dict-item]
    assert json.loads(run("tool", "render", "--format", "anthropic", *CODER).out)[0]["input_schema"]["type"] == "object"
    assert [tool["name"] for tool in run("tool", "list", "--json").document["tools"]] == ["weather"]


def test_wrong_input_is_refused(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{", "utf-8")
    assert "is not JSON" in run("tool", "create", str(broken)).err
    assert "cannot be read" in run("tool", "create", str(tmp_path / "missing.json")).err
    assert run("tool", "create", str(tmp_path)).code != 0
