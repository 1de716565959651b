"""Earlier versions of a block: list them, compare them, read one as of a time, and undo changes."""

from collections.abc import Sequence
from datetime import datetime
from difflib import unified_diff

from everhold.blocks.editing import split_lines
from everhold.blocks.pipeline import BlockEdit
from everhold.errors import NotFound, Remedy, Verb
from everhold.model import Block, Revision
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where


def read_revisions(records: Records, block: Block) -> list[Revision]:
    """Return the revisions of a block, oldest first. Each has the values before one change."""
    where = [Where("owner_kind", Op.EQ, "block"), Where("owner_id", Op.EQ, block.id)]
    return records.scan(Revision, block.organization_id, where, order="revision")


def read_block_at(records: Records, block: Block, at: datetime) -> Block:
    """Return a block as it was at a time; raise NotFound if it did not exist yet."""
    if at < block.created_at:
        raise NotFound(
            f"block {block.label!r} did not exist at {at.isoformat()}",
            value=at,
            remedy=f"it was created at {block.created_at.isoformat()}",
        )
    where = [
        Where("owner_kind", Op.EQ, "block"),
        Where("owner_id", Op.EQ, block.id),
        Where("known_from", Op.LE, at),
        Where("known_to", Op.GT, at),
    ]
    revisions = records.scan(Revision, block.organization_id, where, limit=1)
    return restore_values(block, revisions[0]) if revisions else block


def restore_values(block: Block, revision: Revision) -> Block:
    """Return a block with the values of a revision: as it was before that change."""
    stamps = {
        "version": revision.revision,
        "updated_at": revision.known_from,
        "last_updated_by_id": revision.last_updated_by_id,
    }
    return Block.build_complete({**block.__dict__, **revision.value, **stamps})


def diff_versions(records: Records, block: Block, from_version: int | None, to_version: int | None) -> str:
    """Return a unified diff of a block's value between two versions; by default the last change."""
    revisions = read_revisions(records, block)
    target = _require_version(block, revisions, block.version if to_version is None else to_version)
    if from_version is None:
        earlier = [revision.revision for revision in revisions if revision.revision < target.version]
        from_version = earlier[-1] if earlier else target.version
    start = _require_version(block, revisions, from_version)
    lines = unified_diff(
        split_lines(start.value),
        split_lines(target.value),
        f"{block.label} version {start.version}",
        f"{block.label} version {target.version}",
        lineterm="",
    )
    return "\n".join(lines)


def _require_version(block: Block, revisions: Sequence[Revision], number: int) -> Block:
    """Return a block at one of its versions."""
    if number == block.version:
        return block
    revision = next((revision for revision in revisions if revision.revision == number), None)
    if revision is None:
        raise NotFound(
            f"block {block.label!r} has no version {number}",
            value=number,
            remedy=Remedy("{} lists its versions", Verb("block_history")),
        )
    return restore_values(block, revision)


def plan_undo(records: Records, block: Block, to_version: int | None) -> BlockEdit:
    """Return the edit that restores a version; without a version, the edit that undoes the last effective change."""
    revisions = read_revisions(records, block)
    if to_version is None:
        position = _find_undo_position(revisions)
        if position == 0:
            raise NotFound(f"block {block.label!r} has no change to undo", value=block.id, remedy="it is as created")
        to_version = revisions[position - 1].revision
    revision = next((revision for revision in revisions if revision.revision == to_version), None)
    if revision is None:
        _require_version(block, revisions, to_version)
        return BlockEdit({})  # the block is already at that version
    return BlockEdit(revision.value, restores=to_version)


def _find_undo_position(revisions: Sequence[Revision]) -> int:
    """Return the index of the version whose values the block has, following undos back to the version they restored.

    The index counts the revisions; the block itself comes after the last one.
    """
    position = len(revisions)
    positions = {revision.revision: index for index, revision in enumerate(revisions)}
    while position:
        version = revisions[position - 1].metadata.get("restores")
        restored_position = positions.get(version) if isinstance(version, int) else None
        # Imported metadata may be anything, and must not cause a loop.
        if restored_position is None or restored_position >= position:
            return position
        position = restored_position
    return position
