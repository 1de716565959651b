"""Import the files of UnifiedMemoryReasoningAgent except sessions: error patterns, digital twins and memories.

Each `detect_…` function returns how likely a file is of its kind, from 0 to 1. The most likely kind is chosen.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.source import (
    BadRow,
    ImportInput,
    ImportSource,
    LeftOut,
    RowDraft,
    Sample,
    SourceItem,
    are_mostly,
)
from everhold.importers.values import add_other_fields, describe
from everhold.json_streams import JsonStream
from everhold.model.memory import DEFAULT_PRIORITY, compute_importance

_MEMORY_FIELDS = ("id", "session_id", "user_id", "content", "type", "strength", "source", "created_at", "timestamp",
                  "metadata", "forgotten")  # fmt: skip
_DEFAULT_IMPORTANCE = compute_importance(DEFAULT_PRIORITY)


def detect_patterns(sample: Sample) -> float:
    outline = sample.outline
    if not isinstance(outline, dict) or not isinstance(outline.get("patterns"), dict):
        return 0.0
    patterns = outline["patterns"].values()
    is_known = are_mostly(patterns, _is_pattern)
    return 0.9 if is_known or (not patterns and isinstance(outline.get("history"), list)) else 0.0


def _is_pattern(value: Any) -> bool:
    return isinstance(value, dict) and ("solution" in value or "pattern" in value)


def read_patterns(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_json() as stream:
        for name in stream.iterate_members():
            if name == "patterns" and stream.peek() == "{":
                for pattern in stream.iterate_members():
                    yield _draft_error("patterns", f"patterns {pattern!r:.80}", pattern, stream.read_value())
            elif name == "history" and stream.peek() == "[":
                for index in stream.iterate_items():
                    item = stream.read_value()
                    error_type = item.get("error_type") if isinstance(item, dict) else None
                    yield _draft_error("history", f"history[{index}]", error_type, item)
            else:
                stream.skip_value()
        stream.require_end()


def _draft_error(origin: str, place: str, error_type: Any, item: Any) -> SourceItem:
    """Return a memory from an entry about an error and its solution."""
    if not isinstance(item, dict) or not (item.get("pattern") or item.get("solution")):
        return BadRow(origin, place, "the entry has neither a pattern nor a solution", item, "memory")
    text = (
        f"Error {error_type}: {describe(item.get('pattern') or '')}. Solution: {describe(item.get('solution') or '')}"
    )
    is_pattern = origin == "patterns"
    values = {
        # The voice gateway finds the pattern of a type of error by this id.
        "id": f"error-pattern:{error_type}"[:255] if is_pattern else None,
        "kind": "procedural" if is_pattern else "observation",
        "text": text,
        "content": {"error_type": error_type, **item},
        "tags": ["error", *(["error-pattern"] if is_pattern else [])],
        "created_at": item.get("last_seen") or item.get("timestamp"),
    }
    return RowDraft("memory", origin, place, values)


def detect_twins(sample: Sample) -> float:
    is_named = "twin" in sample.name.lower()
    outline = sample.outline
    is_fitting = isinstance(outline, dict) and are_mostly(outline.values(), lambda value: isinstance(value, dict))
    return 0.8 if is_named and is_fitting else 0.0


def read_twins(import_input: ImportInput) -> Iterator[SourceItem]:
    """Yield each twin twice: in its user's metadata, and as a memory that recall can find."""
    with import_input.files.open_json() as stream:
        for user in stream.iterate_members():
            twin, place = stream.read_value(), f"{user!r:.80}"
            if not isinstance(twin, dict):
                yield BadRow("twins", place, "the twin is not an object", twin, "user")
                continue
            yield RowDraft("user", "twins", place, {"user": user, "metadata": {"digital_twin": twin}})
            updated_at = twin.get("last_updated") or twin.get("updated_at") or twin.get("timestamp")
            values = {"user": user, "kind": "core", "content": twin, "text": describe(twin), "tags": ["digital twin"]}
            if values["text"]:
                yield RowDraft("memory", "twins", place, {**values, "created_at": updated_at})
        stream.require_end()


def detect_memories(sample: Sample) -> float:
    return 0.85 if are_mostly(_find_memories(sample.outline)[:5], _is_memory) else 0.0


def _is_memory(item: Any) -> bool:
    typical_fields = {"strength", "forgotten", "freshness_score", "last_accessed"}
    return isinstance(item, dict) and "content" in item and bool(typical_fields & item.keys())


def _find_memories(outline: Any) -> list[Any]:
    """Return the memories at the beginning of a file, in any of the forms that `_read_memories` reads."""
    if isinstance(outline, dict):
        data = outline.get("data")
        outline = outline.get("memories") or (data.get("memories") if isinstance(data, dict) else None) or outline
        if isinstance(outline, dict):
            outline = list(outline.values())
    return outline if isinstance(outline, list) else []


def read_memories(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_json() as stream:
        yield from _read_memories(stream)
        stream.require_end()


def _read_memories(stream: JsonStream) -> Iterator[SourceItem]:
    """Yield memories from a list, from an object with a list or an object "memories", or from an object by id."""
    if stream.peek() == "[":
        for index in stream.iterate_items():
            yield _draft_memory(f"memories[{index}]", stream.read_value())
        return
    for name in stream.iterate_members():
        if (name == "data" and stream.peek() == "{") or (name == "memories" and stream.peek() == "["):
            yield from _read_memories(stream)
        elif name == "memories" and stream.peek() == "{":
            for memory_id in stream.iterate_members():
                yield _draft_memory(f"memories {memory_id!r:.80}", stream.read_value(), memory_id)
        elif stream.peek() == "{":
            value = stream.read_value()
            if "content" in value:
                yield _draft_memory(f"memories {name!r:.80}", value, name)
        else:
            stream.skip_value()


def _draft_memory(place: str, item: Any, memory_id: str | None = None) -> SourceItem:
    if not isinstance(item, dict):
        return BadRow("memories", place, "the memory is not an object", item, "memory")
    if item.get("forgotten"):
        return LeftOut("memories", "forgotten in the old system")
    return RowDraft("memory", "memories", place, _choose_values(item, memory_id))


def _choose_values(item: Mapping[str, Any], memory_id: str | None) -> dict[str, Any]:
    strength, content = item.get("strength"), item.get("content")
    return {
        "id": item.get("id") or memory_id,
        "session": item.get("session_id"),
        "user": item.get("user_id"),
        "text": describe(content),
        "content": content if isinstance(content, dict) else None,
        "kind": item.get("type") or ("observation" if strength is None else "interaction"),
        "tags": [] if strength is None else ["unified"],
        "source_agent": item.get("source"),
        # The strength of a new memory is 1 in the old system. That is the default importance here.
        "importance": max(0.0, min(1.0, strength * _DEFAULT_IMPORTANCE)) if isinstance(strength, int | float) else None,
        "created_at": item.get("created_at") or item.get("timestamp"),
        "metadata": add_other_fields(item.get("metadata"), item, _MEMORY_FIELDS) or None,
    }


ERROR_PATTERNS = ImportSource("error-patterns", "error_patterns.json", detect_patterns, read_patterns)
DIGITAL_TWINS = ImportSource("digital-twins", "digital_twin_store.json", detect_twins, read_twins)
MEMORIES = ImportSource("unified", "a reply of the unified agent with its memories", detect_memories, read_memories)
