"""Read EpisodicMemoryAgent's SQLite database: episodes, their interactions, tags, groups and relationships."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everhold.importers.source import ImportInput, ImportSource, RowDraft, Sample, SourceItem, report_unread
from everhold.importers.values import add_other_fields
from everhold.ports.foreign_tables import ForeignTables

_SPEAKERS = {"user": "user", "human": "user", "assistant": "assistant", "agent": "assistant", "system": "system"}

_TABLES = (
    "episodes", "interactions", "episode_tags", "episode_relationships", "context_groups", "episode_context_groups",
)  # fmt: skip

# `profile` and `status` of an episode, and `intent` and `sentiment` of an interaction, go to the metadata.
_EPISODE_COLUMNS = ("episode_id", "user_id", "start_time", "end_time", "context", "summary", "importance_score")
_INTERACTION_COLUMNS = ("interaction_id", "episode_id", "timestamp", "speaker", "content", "metadata")


def detect(sample: Sample) -> float:
    return float(sample.has_tables(episodes="episode_id", interactions="interaction_id episode_id content")) * 0.95


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_database() as tables:
        tags = _collect_tags(tables)
        for row in tables.read_rows("episodes", ("start_time", "episode_id")):
            session_id = make_session_id(row["episode_id"])
            yield _describe_session(session_id, row)
            if row.get("summary"):
                yield _describe_summary(session_id, row, tags[str(row["episode_id"])])
        for row in tables.read_rows("interactions", ("episode_id", "timestamp", "interaction_id")):
            yield _describe_interaction(row)
        if "episode_relationships" in tables.columns:
            for number, row in enumerate(tables.read_rows("episode_relationships"), 1):
                yield _describe_relationship(number, row)
        yield from report_unread(tables, *_TABLES)


def make_session_id(episode_id: Any) -> str:
    """Return the session id of an episode. It has a prefix, because other systems also number from 1."""
    return f"episode-{episode_id}"


def _make_summary_id(episode_id: Any) -> str:
    return f"episode-{episode_id}/summary"


def _collect_tags(tables: ForeignTables) -> dict[str, list[str]]:
    """Return the tags of each episode, with the names of its context groups."""
    tags: dict[str, list[str]] = defaultdict(list)
    if "episode_tags" in tables.columns:
        for row in tables.read_rows("episode_tags"):
            tags[str(row.get("episode_id"))].append(str(row.get("tag")))
    if {"context_groups", "episode_context_groups"} <= tables.columns.keys():
        names = {
            _find_group_id(row): row.get("name") or row.get("group_name") for row in tables.read_rows("context_groups")
        }
        for row in tables.read_rows("episode_context_groups"):
            name = names.get(_find_group_id(row))
            if name:
                tags[str(row.get("episode_id"))].append(str(name))
    return tags


def _find_group_id(row: Mapping[str, Any]) -> Any:
    return next((row[name] for name in ("group_id", "context_group_id", "id") if name in row), None)


def _describe_session(session_id: str, row: Mapping[str, Any]) -> RowDraft:
    metadata = add_other_fields(None, row, _EPISODE_COLUMNS)
    values = {
        "id": session_id,
        "user": row.get("user_id"),
        "session_type": "episode",
        "summary": row.get("summary"),
        "context": row.get("context"),
        "created_at": row.get("start_time"),
        "updated_at": row.get("end_time"),
        "ended_at": row.get("end_time") if row.get("status") != "active" else None,
        "metadata": metadata,
    }
    return RowDraft("session", "episodes", f"episode {row['episode_id']}", values)


def _describe_summary(session_id: str, row: Mapping[str, Any], tags: Sequence[str]) -> RowDraft:
    values = {
        "id": _make_summary_id(row["episode_id"]),
        "user": row.get("user_id"),
        "session": session_id,
        "kind": "episodic",
        "text": row["summary"],
        "importance": row.get("importance_score"),
        "tags": list(tags),
        "created_at": row.get("start_time"),
    }
    return RowDraft("memory", "episodes", f"episode {row['episode_id']}", values)


def _describe_interaction(row: Mapping[str, Any]) -> RowDraft:
    session_id = make_session_id(row["episode_id"])
    speaker = str(row.get("speaker") or "user")
    extra = add_other_fields(None, row, _INTERACTION_COLUMNS)
    values = {
        "id": f"{session_id}/{row['interaction_id']}",
        "session": session_id,
        "role": _SPEAKERS.get(speaker.lower(), "user"),
        "name": None if speaker.lower() in _SPEAKERS else speaker,
        "text": row["content"],
        "created_at": row.get("timestamp"),
        "metadata": {**extra, "metadata": row["metadata"]} if row.get("metadata") else extra,
    }
    return RowDraft("message", "interactions", f"interactions row {row['interaction_id']}", values)


def _describe_relationship(number: int, row: Mapping[str, Any]) -> RowDraft:
    # Versions of the agent have different names for the two columns: source_episode_id, episode_id1, …
    ids = [value for key, value in row.items() if "episode_id" in key or key.startswith(("source", "target"))]
    source, target = (*ids, None, None)[:2]
    values = {
        "source": None if source is None else _make_summary_id(source),
        "target": None if target is None else _make_summary_id(target),
        "type": row.get("relationship_type") or row.get("type"),
        "metadata": {key: row[key] for key in ("strength", "confidence") if row.get(key) is not None},
    }
    return RowDraft("relationship", "episode_relationships", f"episode_relationships row {number}", values)


SOURCE = ImportSource("episodic", "EpisodicMemoryAgent's episodic_memory.db", detect, read)
