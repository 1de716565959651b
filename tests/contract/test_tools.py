"""Tools and the agents that have them through public verbs, on every store."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from benchmarks.bundles import read_rows, write_rows
from everhold import Everhold, View
from everhold.errors import (
    AlreadyExists,
    Conflict,
    InvalidArguments,
    InvalidInput,
    NotFound,
    StaleVersion,
    UnknownField,
)
from everhold.model import ToolAgent
from tests.engines import Store

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "default": 3}},
    "required": ["city"],
    "additionalProperties": False,
}


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Return the weather of a city.

    Args:
        city: The city, in English.
    """
    return f"20 degrees {unit} in {city}"


@pytest.fixture
def engine(any_store: Store) -> Everhold:
    return any_store.open()


@pytest.fixture
def coder(engine: Everhold) -> View:
    return engine.scope(agent="coder", user="alice")


def test_the_table_of_tools_has_every_column(coder: View) -> None:
    earliest = datetime.now(UTC) - timedelta(seconds=1)
    tool = coder.create_tool(
        "get_weather",
        id="tool-1",
        description="Return the weather — 天気.",
        json_schema=SCHEMA,
        source_type="python",
        source_code="def get_weather(city, days=3): ...\n",
        tags=["weather", "Ünïcode"],
        metadata={"owner": {"team": "sky"}},
    )
    assert coder.tool("tool-1") == tool == coder.tool("get_weather")
    assert (tool.id, tool.organization_id, tool.name) == ("tool-1", "default", "get_weather")
    assert (tool.description, tool.json_schema) == ("Return the weather — 天気.", SCHEMA)
    assert (tool.source_type, tool.source_code) == ("python", "def get_weather(city, days=3): ...\n")
    assert (tool.tags, tool.metadata) == (["weather", "Ünïcode"], {"owner": {"team": "sky"}})
    assert (tool.created_by_id, tool.last_updated_by_id, tool.is_deleted, tool.version) == ("alice", None, False, 1)
    assert tool.created_at == tool.updated_at >= earliest
    changed = coder.update_tool("tool-1", description=None, tags=[], metadata={"owner": None}, expected_version=1)
    assert coder.tool("tool-1") == changed
    assert (changed.description, changed.tags, changed.metadata) == (None, [], {"owner": None})
    assert (changed.version, changed.last_updated_by_id, changed.json_schema) == (2, "alice", SCHEMA)
    assert changed.updated_at > tool.updated_at
    assert changed.created_at == tool.created_at
    with pytest.raises(StaleVersion, match="at version 2, not 1; read it again and retry with expected_version=2"):
        coder.update_tool("tool-1", tags=["x"], expected_version=1)


def test_tools_are_attached_to_agents_and_detached(engine: Everhold, coder: View) -> None:
    critic = engine.scope(agent="critic")
    for name in ("search", "write"):
        coder.create_tool(name, id=name, json_schema=SCHEMA)
    coder.attach_tool("search")
    assert coder.attach_tool("search").id == "search"
    critic.attach_tool("search")
    critic.attach_tool("write")
    links = engine._parts.records.scan(ToolAgent, "default")
    assert {(link.tool_id, link.agent_id, link.organization_id) for link in links} == {
        ("search", "coder", "default"),
        ("search", "critic", "default"),
        ("write", "critic", "default"),
    }
    assert {link.created_by_id for link in links} == {"alice", "critic"}
    assert [tool.id for tool in coder.tools()] == ["search"]
    assert [tool.id for tool in coder.tools(agent="critic")] == ["search", "write"]
    assert [tool.id for tool in coder.tools(attached=False)] == ["search", "write"]
    assert [tool.id for tool in engine.scope().tools()] == ["search", "write"]
    coder.detach_tool("search")
    assert not coder.tools()
    assert [tool.id for tool in critic.tools()] == ["search", "write"]
    with pytest.raises(NotFound, match="agent 'coder' has no tool 'search'"):
        coder.detach_tool("search")
    with pytest.raises(InvalidInput, match="the scope names no agent; name one with agent='ID'"):
        engine.scope().attach_tool("search")


def test_a_tool_made_from_a_function_is_rendered_for_models(coder: View) -> None:
    tool = coder.create_tool_from(get_weather, attach=True, tags=["weather"])
    assert tool.source_code is not None
    assert tool.source_code.startswith("def get_weather(")
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city, in English."},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    head = {"name": "get_weather", "description": "Return the weather of a city."}
    assert coder.tools().as_openai() == [{"type": "function", "function": {**head, "parameters": schema}}]
    assert coder.tools(tag="weather").as_anthropic() == [{**head, "input_schema": schema}]
    assert coder.tools(tag="other").as_openai() == []
    assert coder.create_tool_from(get_weather, replace=True, attach=True, tags=["weather"]) == tool
    assert coder.create_tool_from(get_weather, replace=True, description="Better.").version == 2
    with pytest.raises(AlreadyExists, match="tool 'get_weather' exists; choose another name, or create it with repl"):
        coder.create_tool_from(get_weather)
    assert coder.check_call("get_weather", '{"city": "Rome"}') == {"city": "Rome", "unit": "celsius"}
    with pytest.raises(InvalidArguments) as caught:
        coder.check_call("get_weather", {"town": "Rome", "unit": "kelvin"})
    assert [str(fault) for fault in caught.value.faults] == [
        "unit is 'kelvin'; pass 'celsius' or 'fahrenheit' for unit",
        "city is missing; pass text for city",
        "there is no parameter 'town'; choose from city, unit",
    ]


def test_a_tool_is_deleted_and_restored(engine: Everhold, coder: View) -> None:
    coder.create_tool("search", id="t1", json_schema=SCHEMA, attach=True)
    preview = coder.delete_tool("search", preview=True)
    assert (preview.preview, preview.rows) == (True, {"tools": 1, "tools_agents": 1})
    assert coder.delete_tool("search").rows == preview.rows
    for call in (coder.tool, coder.delete_tool, coder.attach_tool, coder.update_tool):
        with pytest.raises(NotFound, match="no tool 'search' in organization 'default'"):
            call("search")
    assert not coder.tools()
    replacement = coder.create_tool("search")
    with pytest.raises(AlreadyExists, match="tool 'search' exists"):
        coder.restore_tool("t1")
    coder.update_tool(replacement.id, name="look_up")
    assert coder.restore_tool("search").id == "t1"
    assert [tool.id for tool in coder.tools()] == ["t1"]
    with pytest.raises(NotFound, match="tool 't1' is not deleted; there is nothing to restore"):
        coder.restore_tool("t1")
    coder.delete_tool("t1")
    coder.delete_tool("t1", hard=True)
    with pytest.raises(NotFound):
        coder.restore_tool("t1")
    assert engine._parts.records.scan(ToolAgent, "default", deleted=True) == []
    engine.delete_organization("default")
    with pytest.raises(NotFound, match="was deleted with its organization; restore the organization"):
        coder.restore_tool(replacement.id)


def test_an_agent_cannot_change_a_tool_that_another_agent_has(engine: Everhold, coder: View) -> None:
    critic = engine.scope(agent="critic")
    coder.create_tool("search", attach=True)
    critic.attach_tool("search")
    for change in (
        lambda: coder.update_tool("search", tags=["x"]),
        lambda: critic.delete_tool("search"),
        lambda: coder.delete_tool("search", hard=True),
        lambda: coder.create_tool("search", replace=True, tags=["x"]),
    ):
        with pytest.raises(Conflict, match="other agents have tool 'search', too; use a scope without the agent"):
            change()
    assert engine.scope().update_tool("search", tags=["x"]).version == 2
    critic.detach_tool("search")
    assert coder.update_tool("search", tags=["y"]).tags == ["y"]


def test_an_organization_cannot_see_tools_of_another(engine: Everhold, coder: View) -> None:
    tool = coder.create_tool("search", attach=True)
    other_view = engine.scope(organization="other", agent="coder")
    for call in (other_view.tool, other_view.attach_tool, other_view.delete_tool, other_view.restore_tool):
        for name in ("search", tool.id):
            with pytest.raises(NotFound, match=f"no tool {name!r} in organization 'other'"):
                call(name)
    assert not other_view.tools()
    assert other_view.create_tool("search", id=tool.id).organization_id == "other"
    assert coder.tool("search") == tool


def test_concurrent_updates_lose_nothing(coder: View) -> None:
    coder.create_tool("search", metadata={"n": 0})
    errors: list[StaleVersion] = []

    def add_one() -> None:
        for _ in range(5):
            while True:
                tool = coder.tool("search")
                try:
                    coder.update_tool("search", metadata={"n": tool.metadata["n"] + 1}, expected_version=tool.version)
                    break
                except StaleVersion as error:
                    errors.append(error)

    threads = [threading.Thread(target=add_one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tool = coder.tool("search")
    assert (tool.metadata, tool.version) == ({"n": 15}, 16)


def test_tools_survive_an_export(engine: Everhold, coder: View, tmp_path: Path) -> None:
    tool = coder.create_tool("search", json_schema=SCHEMA, tags=["a"], attach=True)
    engine.export(tmp_path / "all.jsonl")
    engine.load(tmp_path / "all.jsonl", organization="copy")
    copied = engine.scope(organization="copy", agent="coder").tools()
    assert [(copy.id, copy.name, copy.json_schema, copy.tags) for copy in copied] == [
        (tool.id, "search", SCHEMA, ["a"])
    ]


def test_imported_tools_may_share_a_name(engine: Everhold, coder: View, tmp_path: Path) -> None:
    coder.create_tool("search", id="theirs", attach=True)
    copy = engine.scope(organization="copy", agent="coder")
    copy.create_tool("search", id="ours")
    engine.export(tmp_path / "all.jsonl")
    engine.load(tmp_path / "all.jsonl", organization="copy")
    assert copy.tool("search").id == "theirs"  # the tool that the agent has
    with pytest.raises(Conflict, match="2 tools are named 'search'; use an id: ours, theirs"):
        engine.scope(organization="copy").tool("search")
    with pytest.raises(Conflict, match="agent 'coder' has another tool named 'search'; detach it first"):
        copy.attach_tool("ours")
    copy.detach_tool("theirs")
    assert copy.attach_tool("ours").id == "ours"


def test_a_hostile_schema_in_a_bundle_is_harmless(engine: Everhold, coder: View, tmp_path: Path) -> None:
    coder.create_tool("search", json_schema=SCHEMA, attach=True)
    engine.export(tmp_path / "all.jsonl")
    rows = read_rows(tmp_path / "all.jsonl")
    [tool] = [line["row"] for line in rows if line["table"] == "tools"]
    tool["json_schema"] = {"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}
    engine.load(write_rows(tmp_path / "hostile.jsonl", rows, "default"), organization="copy")
    copy = engine.scope(organization="copy", agent="coder")
    with pytest.raises(InvalidInput, match="a look-around"):
        copy.check_call("search", {"a": "x"})
    assert copy.update_tool("search", json_schema={}).version == 2
    assert copy.check_call("search", {"a": "x"}) == {"a": "x"}


def test_tools_are_listed_in_pages(engine: Everhold, coder: View) -> None:
    for number in range(5):
        coder.create_tool(
            f"tool_{number}", id=f"t{number}", attach=number != 3, tags=["even"] if number % 2 == 0 else []
        )
    for view, expected in ((coder, ["t0", "t1", "t2", "t4"]), (engine.scope(), ["t0", "t1", "t2", "t3", "t4"])):
        first = view.tools(limit=3)
        assert [tool.id for tool in [*first, *view.tools(limit=3, cursor=first.cursor)]] == expected
        assert view.tools(limit=len(expected)).cursor is None
        assert [tool.id for tool in view.tools(tag="even")] == ["t0", "t2", "t4"]


def test_invalid_tools_are_refused(coder: View) -> None:
    with pytest.raises(InvalidInput, match=r"the name of the tool is 'get weather'; use 1 to 64 letters"):
        coder.create_tool("get weather")
    with pytest.raises(InvalidInput, match="the schema's type is 'string'"):
        coder.create_tool("search", json_schema={"type": "string"})
    with pytest.raises(InvalidInput, match="refer to a schema in the same document"):
        coder.create_tool(
            "search", json_schema={"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}
        )
    with pytest.raises(UnknownField, match="takes no argument 'schema'; did you mean 'json_schema'"):
        coder.create_tool("search", schema={})  # type: ignore[call-arg]
    assert not coder.tools(attached=False)
    coder.create_tool("search", id="s")
    with pytest.raises(AlreadyExists, match="tool id 's' is taken"):
        coder.create_tool("search_2", id="s")
    with pytest.raises(AlreadyExists):
        coder.update_tool(coder.create_tool("other").id, name="search")
    with pytest.raises(InvalidInput, match="the arguments are not JSON"):
        coder.check_call("search", "{")
