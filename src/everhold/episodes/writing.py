"""Make the operations that store episodes with their search chunks."""

from collections.abc import Sequence
from datetime import datetime

from everhold.episodes.deps import EpisodeDeps
from everhold.episodes.rollups import EpisodeChange
from everhold.model import Chunk, Episode
from everhold.model.announcement import make_announcement
from everhold.schema.catalog import get_table
from everhold.schema.operations import Delete, Op, Operation, Patch, Put, Where

# Fields that a change of an episode does not compare or overwrite; `updated_at` is set separately.
_FIXED = ("organization_id", "id", "created_at", "updated_at", "version", "is_deleted", "deleted_at", "deletion_id")


def make_operations(deps: EpisodeDeps, changes: Sequence[EpisodeChange], now: datetime) -> list[Operation]:
    """Return the operations that store changed episodes. An unchanged summary is not embedded again."""
    operations: list[Operation] = []
    changes_of_summary: list[EpisodeChange] = []
    for before, after in changes:
        if before is None:
            operations.append(Put(after))
        else:
            values = {
                name: value
                for name, value in after.__dict__.items()
                if name not in _FIXED and value != before.__dict__[name]
            }
            if not values:
                continue
            key = (before.organization_id, before.id)
            operations.append(Patch(Episode, key, {**values, "updated_at": now}, version=before.version))
        if before is None or before.summary != after.summary:
            changes_of_summary.append(EpisodeChange(before, after))
    return [*operations, *_replace_chunks(deps, changes_of_summary)]


def _replace_chunks(deps: EpisodeDeps, changes: Sequence[EpisodeChange]) -> list[Operation]:
    operations: list[Operation] = []
    stored_ids = [before.id for before, _ in changes if before is not None]
    if stored_ids:
        where = [Where("owner_kind", Op.EQ, "episode"), Where("owner_id", Op.IN, stored_ids)]
        organization = changes[0].after.organization_id
        keys = deps.records.columns(Chunk, organization, get_table(Chunk).key, where, deleted=True)
        operations += [Delete(Chunk, key) for key in keys]
    episodes = [after for _, after in changes]
    for episode, chunks in zip(episodes, deps.make_chunks(episodes), strict=True):
        operations += [*map(Put, chunks), Put(make_announcement(episode))]
    return operations
