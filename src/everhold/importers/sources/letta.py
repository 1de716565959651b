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
    if is_current or is_older:
        return 0.95
    return 0.9 if sample.name.endswith(".af") else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    """Yield each agent by its id and name; the file is read again when the agent is stored."""
    if import_input.files.holder is not None and import_input.files.holder.is_archive:
        yield LeftOut("agents", "an agent file in an archive is not read; unpack it, and import the folder")
        return
    name: Any = None
    has_agents = False
    with import_input.files.open_json() as stream:
        for member in stream.iterate_members():
            if member == "agents" and stream.peek() == "[":
                has_agents = True
                for index in stream.iterate_items():
                    yield _describe(f"agents[{index}]", stream.read_value(), import_input)
            elif member == "name":
                name = stream.read_value()
            else:
                stream.skip_value()
        stream.require_end()
    if not has_agents:
        stem = import_input.files.path.stem
        yield RowDraft(
            "agent", "agent", "the agent", {"name": name or stem, "agent": name or stem, **_name_file(import_input)}
        )


def _name_file(import_input: ImportInput) -> dict[str, str]:
    """Return the path of a file in a folder. Agents are read from their file again when they are stored."""
    holder = import_input.files.holder
    return {} if holder is None else {"file": str(import_input.files.path.relative_to(holder.path))}


def _describe(place: str, agent: Any, import_input: ImportInput) -> SourceItem:
    if not isinstance(agent, dict):
        return BadRow("agents", place, "the agent is not an object", agent)
    choice = agent.get("id") or agent.get("name")
    return RowDraft(
        "agent",
        "agents",
        place,
        {"name": agent.get("name") or choice, "agent": choice, "choice": choice, **_name_file(import_input)},
    )


SOURCE = ImportSource("letta", "Letta's agent file (.af)", detect, read)
