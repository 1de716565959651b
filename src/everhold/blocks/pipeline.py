"""Create blocks and change them: check the limit, store the old values as a revision, replace the chunks, commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.blocks.deps import BlockDeps
from everhold.blocks.editing import check_length
from everhold.blocks.lookup import (
    require_block,
    require_changeable,
    require_free_label,
    require_template,
    require_version,
)
from everhold.errors import (
    AlreadyExists,
    Argument,
    BrokenReference,
    Conflict,
    InvalidInput,
    Remedy,
    StaleVersion,
    StoreBusy,
)
from everhold.model import Block, BlockAgent, Chunk, Revision, Scope
from everhold.model.agent import BLOCK_REVISABLE
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.ports.block_access import read_block_access
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import get_table
from everhold.schema.operations import Delete, Op, Operation, Patch, Put, Where

_BLOCKS, _LINKS, _REVISIONS, _CHUNKS = (get_table(entity).name for entity in (Block, BlockAgent, Revision, Chunk))
# The fields that a retry of `create_block` must repeat.
_REPEATED_FIELDS = ("label", "is_template", "user_id", *BLOCK_REVISABLE)
_TEMPLATE_FIELDS = ("label", *BLOCK_REVISABLE)


@dataclass(frozen=True)
class BlockEdit:
    """New values of a block's fields. `restores` is the version that had them, if the edit is an undo."""

    changes: Mapping[str, Any]
    restores: int | None = None


# creating


def create_block(deps: BlockDeps, scope: Scope, fields: Mapping[str, Any], template: str | None = None) -> Block:
    """Create a block of the scope's user in the context of the scope's agent, and return it.

    A call that is repeated with the same id returns the block of the first call.
    """
    if scope.columns and scope.user is None and scope.agent is None:
        raise InvalidInput(
            "a block belongs to users and agents, and the scope names neither",
            remedy=Remedy("name one with {} or {}", Argument("agent", "ID"), Argument("user", "ID")),
        )
    values = {**_read_template(deps.records, scope, template), **fields}
    if "label" not in values:
        raise InvalidInput("a block needs a label", remedy="pass a label, such as 'human', or a template")

    def commit(_: int) -> Block:
        now = clock.now()
        block = _draft_block(deps, scope, values, now)
        require_free_label(deps.records, block, scope.agent)
        owner_scope = Scope(
            organization=scope.organization, user=scope.user, agent=None if block.is_template else scope.agent
        )
        try:
            deps.records.commit([*deps.make_missing_rows(owner_scope, now), *_make_additions(deps, scope, block, now)])
        except AlreadyExists as error:
            if error.table != _BLOCKS:
                raise
            return _require_same_block(deps.records, scope, block, error)
        except BrokenReference as error:
            deps.invalidate_rows()
            raise TryAgain("a row of the scope was deleted") from error
        return block

    return retry("create a block", commit, CONFLICTS)


def _read_template(records: Records, scope: Scope, name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    template = require_template(records, scope, name)
    return {field: template.__dict__[field] for field in _TEMPLATE_FIELDS}


def _draft_block(deps: BlockDeps, scope: Scope, fields: Mapping[str, Any], now: datetime) -> Block:
    fixed = {
        "organization_id": scope.organization,
        "user_id": scope.user,
        "created_at": now,
        "updated_at": now,
        "created_by_id": scope.actor,
        "last_updated_by_id": scope.actor,
    }
    # The scope and the times come last, so that a caller's field cannot put a block into another scope.
    return _validate(deps, {"id": clock.make_id("blk"), "value": "", **fields, **fixed})


def _validate(deps: BlockDeps, values: Mapping[str, Any]) -> Block:
    """Return the block of these values; raise InvalidInput if they are invalid or the value is too long."""
    label, value, limit = values["label"], values["value"], values.get("limit", Block.model_fields["limit"].default)
    # The model states the same rule, but its error would quote the row.
    if isinstance(value, str) and isinstance(limit, int) and limit >= 0:
        check_length(label, len(value), limit)
    block = validate_row(Block, values)
    size = len(block.value.encode())
    if size > deps.text_bytes:
        raise InvalidInput(
            f"the value has {size:,} bytes, over the limit of {deps.text_bytes:,}",
            value=size,
            remedy="store it in parts, or raise text_bytes",
        )
    return block


def _make_additions(deps: BlockDeps, scope: Scope, block: Block, now: datetime) -> list[Operation]:
    operations: list[Operation] = [Put(block)]
    if scope.agent is not None and not block.is_template:
        operations.append(Put(make_link(scope, block, scope.agent, now)))
    return [
        *operations,
        *map(Put, deps.make_chunks([block])[0]),
        deps.make_line(scope, "create", block, now),
        Put(make_announcement(block)),
    ]


def make_link(scope: Scope, block: Block, agent: str, now: datetime) -> BlockAgent:
    """Return the row that puts a block into the context of an agent."""
    return BlockAgent(
        organization_id=block.organization_id,
        block_id=block.id,
        block_label=block.label,
        agent_id=agent,
        created_at=now,
        updated_at=now,
        created_by_id=scope.actor,
    )


def _require_same_block(records: Records, scope: Scope, block: Block, error: AlreadyExists) -> Block:
    """Return the stored block if it equals `block`, which a repeated call would create; otherwise raise
    AlreadyExists."""
    stored = records.get(Block, scope.organization, [block.id]).get(block.id)
    is_same = stored is not None and all(stored.__dict__[name] == block.__dict__[name] for name in _REPEATED_FIELDS)
    if stored is None or not is_same or not read_block_access(records, scope).can_see(stored):
        raise AlreadyExists(
            f"block id {block.id!r} is taken by another block",
            value=block.id,
            remedy="choose another, or leave it out",
            table=error.table,
            rule=error.rule,
        ) from None
    return stored


# changing


def change_block(
    deps: BlockDeps,
    scope: Scope,
    name: str,
    compute_edit: Callable[[Block], BlockEdit],
    *,
    reason: str | None = None,
    expected_version: int | None = None,
    is_relative: bool = False,
) -> Block:
    """Change a block to the values that `compute_edit` returns, and return it. The old values are stored as a revision.

    Raise StaleVersion if the block is not at the expected version, or if another caller changes it at the same time.
    With `is_relative`, the edit depends on the present value, as appending does: without an expected version it is
    repeated on the value that the other caller wrote.
    """

    def attempt(_: int) -> Block:
        block = require_block(deps.records, scope, name)
        require_changeable(scope, block)
        require_version(block, expected_version)
        edit = compute_edit(block)
        now = clock.make_later_time(block.updated_at)
        changed = _apply_edit(deps, scope, block, edit, now)
        if changed is block:
            return block
        try:
            deps.records.commit(_make_operations(deps, scope, block, changed, edit, now, reason))
        except (StaleVersion, AlreadyExists, BrokenReference) as error:
            if isinstance(error, AlreadyExists) and error.table not in (_REVISIONS, _CHUNKS):
                raise
            if is_relative and expected_version is None:
                raise TryAgain("another caller changed the block") from error
            raise _explain_lost_race(deps.records, block) from error
        return changed

    busy = StoreBusy("the block keeps changing", value=name, remedy="try again")
    return retry("change a block", attempt, CONFLICTS, give_up=lambda _: busy)


def _apply_edit(deps: BlockDeps, scope: Scope, block: Block, edit: BlockEdit, now: datetime) -> Block:
    """Return the block with the planned changes; the same object if they change nothing."""
    stamps = {"updated_at": now, "last_updated_by_id": scope.actor, "version": block.version + 1}
    changed = _validate(deps, {**block.__dict__, **edit.changes, **stamps})
    is_same = all(changed.__dict__[name] == block.__dict__[name] for name in BLOCK_REVISABLE)
    return block if is_same and edit.restores is None else changed


def _make_operations(
    deps: BlockDeps,
    scope: Scope,
    block: Block,
    changed: Block,
    edit: BlockEdit,
    now: datetime,
    reason: str | None,
) -> list[Operation]:
    """Return the operations that change a block and store its earlier values as a revision."""
    fields = [name for name in BLOCK_REVISABLE if changed.__dict__[name] != block.__dict__[name]]
    values = {name: changed.__dict__[name] for name in (*fields, "updated_at", "last_updated_by_id")}
    operations: list[Operation] = [
        # The patch comes first, so that concurrent callers fail on the version.
        Patch(Block, (block.organization_id, block.id), values, version=block.version),
        Put(_make_revision(deps.records, block, edit, now, reason)),
    ]
    if "value" in fields:
        operations += _replace_chunks(deps, changed)
    line = deps.make_line(scope, "update", block, now, fields=sorted(fields))
    return [*operations, line, Put(make_announcement(changed))]


def _make_revision(records: Records, block: Block, edit: BlockEdit, now: datetime, reason: str | None) -> Revision:
    """Return the revision with the values before a change. Its number is the version that the block had."""
    where = [Where("owner_kind", Op.EQ, "block"), Where("owner_id", Op.EQ, block.id)]
    latest = records.scan(Revision, block.organization_id, where, order="revision", descending=True, limit=1)
    return Revision(
        id=clock.make_id("rev"),
        organization_id=block.organization_id,
        created_at=now,
        updated_at=now,
        last_updated_by_id=block.last_updated_by_id,
        owner_kind="block",
        owner_id=block.id,
        revision=block.version,
        value=block.model_dump(mode="json", include=set(BLOCK_REVISABLE)),
        known_from=latest[0].known_to if latest else block.created_at,
        known_to=now,
        reason=reason,
        metadata={} if edit.restores is None else {"restores": edit.restores},
    )


def _replace_chunks(deps: BlockDeps, block: Block) -> list[Operation]:
    where = [Where("owner_kind", Op.EQ, "block"), Where("owner_id", Op.EQ, block.id)]
    keys = deps.records.columns(Chunk, block.organization_id, get_table(Chunk).key, where, deleted=True)
    return [*[Delete(Chunk, key) for key in keys], *map(Put, deps.make_chunks([block])[0])]


def _explain_lost_race(records: Records, block: Block) -> Conflict:
    current = records.get(Block, block.organization_id, [block.id]).get(block.id)
    if current is None:
        return StaleVersion(f"block {block.label!r} has been deleted", value=block.id, remedy="nothing was written")
    return StaleVersion(
        f"block {block.label!r} has changed since it was read and is at version {current.version} now",
        value=block.id,
        remedy="read it again and retry",
        current_version=current.version,
    )
