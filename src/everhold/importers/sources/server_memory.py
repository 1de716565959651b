"""Read the memory file of the MCP server "memory": JSON lines of entities and relations."""

from collections.abc import Iterator
from typing import Any

from everhold.importers.rows import FileRow, iterate_json_lines, iterate_rows
from everhold.importers.samples import take_sample
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem, are_mostly
from everhold.importers.values import describe

_TYPES = ("entity", "relation")


def detect(sample: Sample) -> float:
    outline = sample.outline
    if _is_graph(outline):
        return 0.95
    return 0.95 if are_mostly(sample.lines, _is_entity_or_relation) else 0.0


def _is_entity_or_relation(row: Any) -> bool:
    return isinstance(row, dict) and row.get("type") in _TYPES and ("name" in row or "from" in row)


def _is_graph(outline: Any) -> bool:
    """Return whether a value is the graph that the server's tool `read_graph` returns."""
    rows = outline.get("entities") if isinstance(outline, dict) else None
    return isinstance(rows, list) and are_mostly(
        rows[:5], lambda row: isinstance(row, dict) and {"name", "observations"} <= row.keys()
    )


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    if _is_graph(take_sample(import_input.files).outline):
        yield from _read_graph(import_input)
        return
    # Relations may stand before the entities that they name, so the file is read twice.
    for row in iterate_json_lines(import_input.files):
        if row.fields is None or row.fields.get("type") not in _TYPES:
            reason = row.reason or "the line is neither an entity nor a relation"
            yield BadRow("lines", row.place, reason, row.fields or row.value)
        elif row.fields["type"] == "entity":
            yield from _read_entity(row, row.fields)
    for row in iterate_json_lines(import_input.files):
        if row.fields is not None and row.fields.get("type") == "relation":
            yield _describe_relation(row, row.fields)


def _read_graph(import_input: ImportInput) -> Iterator[SourceItem]:
    """Yield the entities and relations of one JSON object."""
    for name in ("entities", "relations"):
        for row in iterate_rows(import_input.files):
            if row.table != name:
                continue
            if row.fields is None:
                yield BadRow(name, row.place, row.reason, row.value)
            elif name == "entities":
                yield from _read_entity(row, row.fields)
            else:
                yield _describe_relation(row, row.fields)


def _read_entity(row: FileRow, fields: dict[str, Any]) -> Iterator[SourceItem]:
    """Yield an entity with all of its observations as one memory."""
    name, observation_items = fields.get("name"), fields.get("observations")
    observations = [describe(item) for item in observation_items] if isinstance(observation_items, list) else []
    kind = fields.get("entityType")
    text = f"{name} ({kind})" if kind else str(name)
    values = {
        "id": make_entity_id(name) if name else None,
        "kind": "entity",
        "text": f"{text}: {'. '.join(observations)}" if observations else text,
        "content": {"name": name, "entity_type": kind, "observations": observations},
        "tags": [str(kind)] if kind else [],
    }
    if name:
        yield RowDraft("memory", "entities", row.place, values)
    else:
        yield BadRow("entities", row.place, "the entity has no name", fields)


def make_entity_id(name: Any) -> str:
    """Return the id of an entity, made from its name, which is its only identifier."""
    return f"entity/{name}"


def _describe_relation(row: FileRow, fields: dict[str, Any]) -> RowDraft:
    source, target = fields.get("from"), fields.get("to")
    values = {
        "source": make_entity_id(source) if source else None,
        "target": make_entity_id(target) if target else None,
        "type": fields.get("relationType"),
    }
    return RowDraft("relationship", "relations", row.place, values)


SOURCE = ImportSource("server-memory", "the MCP memory server's file of JSON lines", detect, read)
