"""The values that are passed to and from Chroma, and the conditions that limit a search to a scope."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from everhold.ports.embedder import Vector


class ChunkEntry(NamedTuple):
    """One chunk as it is stored in Chroma."""

    id: str
    vector: Vector
    document: str
    metadata: dict[str, str]


class Match(NamedTuple):
    """One chunk that Chroma found; `distance` is 0 for the same direction and 2 for the opposite one."""

    id: str
    distance: float
    document: str
    metadata: Mapping[str, Any]


class ChromaQuery(NamedTuple):
    """A search: its scope, vector and limit, and Chroma's own conditions on metadata and text."""

    organization_id: str
    users: tuple[str, ...] | None
    vector: Vector
    n_results: int
    where: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None


def make_chunk_id(organization_id: str, owner_id: str, revision: int, chunk_index: int) -> str:
    """Return a chunk's id in its collection. Its parts are percent-encoded, because ids may contain a slash."""
    return f"{quote(organization_id, safe='')}/{quote(owner_id, safe='')}/{revision}/{chunk_index}"


def parse_organization_id(entry_id: str) -> str:
    """Return the id of the organization in a chunk id; empty if it is malformed."""
    return _parse_part(entry_id, 0)


def parse_owner_id(entry_id: str) -> str:
    """Return the id of the owner in a chunk id; empty if it is malformed."""
    return _parse_part(entry_id, 1)


def _parse_part(entry_id: str, index: int) -> str:
    parts = entry_id.split("/")
    return unquote(parts[index]) if len(parts) == 4 else ""


def make_conditions(
    organization_id: str, users: Sequence[str] | None, where: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return conditions on metadata that limit a search to one organization and, unless None, these users."""
    conditions: list[Mapping[str, Any]] = [{"organization_id": organization_id}]
    if users is not None:
        conditions.append({"user_id": {"$in": list(users)}})
    if where:
        conditions.append(where)
    return {"$and": conditions} if len(conditions) > 1 else dict(conditions[0])
