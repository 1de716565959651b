"""Read Letta's agent file (.af), which has agents with their blocks, tools and messages."""

from collections.abc import Iterator
from typing import Any

from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem


def detect(sample: Sample) -> float:
    outline = sample.outline
    if not isinstance(outline, dict):
        return 0.0
    is_current = isinstance(outline.get("agents"), list) and bool({"blocks", "tools", "groups"} & outline.keys())
    is_older = isinstance(outline.get("core_memory"), list) and "agent_type" in outline
    return 0.95 if is_current or is_older else 0.9 if sample.name.endswith(".af") else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    """Yield each agent by its id and name; the file is read again when the agent is stored."""
    if opened.files.holder is not None and opened.files.holder.is_archive:
        yield LeftOut("agents", "an agent file in an archive is not read; unpack it, and import the folder")
        return
    name: Any = None
    has_agents = False
    with opened.files.open_json() as stream:
        for member in stream.iterate_members():
            if member == "agents" and stream.peek() == "[":
                has_agents = True
                for index in stream.iterate_items():
                    yield _describe(f"agents[{index}]", stream.read_value(), opened)
            elif member == "name":
                name = stream.read_value()
            else:
                stream.skip_value()
        stream.require_end()
    if not has_agents:
        stem = opened.files.path.stem
        yield RowDraft(
            "agent", "agent", "the agent", {"name": name or stem, "agent": name or stem, **_name_file(opened)}
        )


def _name_file(opened: ImportInput) -> dict[str, str]:
    """Return the path of a file in a folder. Agents are read from their file again when they are stored."""
    holder = opened.files.holder
    return {} if holder is None else {"file": str(opened.files.path.relative_to(holder.path))}


def _describe(place: str, agent: Any, opened: ImportInput) -> SourceItem:
    if not isinstance(agent, dict):
        return BadRow("agents", place, "the agent is not an object", agent)
    choice = agent.get("id") or agent.get("name")
    return RowDraft(
        "agent",
        "agents",
        place,
        {"name": agent.get("name") or choice, "agent": choice, "choice": choice, **_name_file(opened)},
    )


SOURCE = ImportSource("letta", "Letta's agent file (.af)", detect, read)
