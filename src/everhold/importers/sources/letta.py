"""Read Letta's agent file (.af), which has agents with their blocks, tools and messages."""

from collections.abc import Iterator
from typing import Any

from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem


def detect(sample: Sample) -> float:
    outline = sample.outline
    if not isinstance(outline, dict):
        return 0.0
    is_current = isinstance(outline.get("agents"), list) and bool({"blocks", "tools", "groups"} & outline.keys())
    is_older = isinstance(outline.get("core_memory"), list) and "agent_type" in outline
    return 0.95 if is_current or is_older else 0.9 if sample.name.endswith(".af") else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    """Yield each agent by its id and name; the file is read again when the agent is stored."""
    name: Any = None
    has_agents = False
    with opened.files.open_json() as stream:
        for member in stream.iterate_members():
            if member == "agents" and stream.peek() == "[":
                has_agents = True
                for index in stream.iterate_items():
                    yield _describe(f"agents[{index}]", stream.read_value())
            elif member == "name":
                name = stream.read_value()
            else:
                stream.skip_value()
        stream.require_end()
    if not has_agents:
        stem = opened.files.path.stem
        yield RowDraft("agent", "agent", "the agent", {"name": name or stem, "agent": name or stem})


def _describe(place: str, agent: Any) -> SourceItem:
    if not isinstance(agent, dict):
        return BadRow("agents", place, "the agent is not an object", agent)
    choice = agent.get("id") or agent.get("name")
    return RowDraft("agent", "agents", place, {"name": agent.get("name") or choice, "agent": choice, "choice": choice})


SOURCE = ImportSource("letta", "Letta's agent file (.af)", detect, read)
