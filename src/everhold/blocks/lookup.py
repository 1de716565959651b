"""Find the blocks that a scope may see, by id or label, and check what the scope may do with them."""

from collections.abc import Sequence
from typing import TypeVar

from everhold.errors import AlreadyExists, Argument, Conflict, InvalidInput, NotFound, Remedy, StaleVersion, Verb
from everhold.model import Block, BlockAgent, Organization, Scope, User
from everhold.model.base import Tracked
from everhold.ports.block_access import BlockAccess, read_block_access
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

R = TypeVar("R", bound=Tracked)
_SHOWN_IDS = 5


def require_block(
    records: Records, scope: Scope, name: str, *, deleted: bool = False, prefers_deleted: bool = False
) -> Block:
    """Return the block with this id or label that the scope sees; with `deleted`, deleted blocks are included.

    Of several blocks with the label, prefer live ones (or deleted ones with `prefers_deleted`), then those of the
    scope's agent, then those of its user. Raise InvalidInput if several remain, and NotFound without revealing whether
    another scope has the block.
    """
    access = read_block_access(records, scope, deleted=deleted)
    block = records.get(Block, scope.organization, [name], deleted=deleted).get(name)
    if block is not None and access.can_see(block):
        return block
    where = [*access.conditions, Where("label", Op.EQ, name), Where("is_template", Op.EQ, False)]
    candidates = records.scan(Block, scope.organization, where, deleted=deleted)
    nearest = _choose_nearest(access, candidates, prefers_deleted=prefers_deleted)
    if len(nearest) > 1:
        ids = ", ".join(block.id for block in nearest[:_SHOWN_IDS]) + (", …" if len(nearest) > _SHOWN_IDS else "")
        raise InvalidInput(
            f"{len(nearest)} blocks of this scope have the label {name!r}: {ids}",
            value=name,
            remedy="name one by its id",
        )
    if not nearest:
        raise NotFound(f"no block {name!r} in this scope", value=name, remedy=Remedy("{} lists them", Verb("blocks")))
    return nearest[0]


def _choose_nearest(access: BlockAccess, blocks: Sequence[Block], *, prefers_deleted: bool = False) -> list[Block]:
    """Return the blocks that rank highest for the scope: by deletion, then link to its agent, then its user."""
    linked, user = set(access.linked_ids), access.scope.user

    def get_rank(block: Block) -> tuple[bool, bool, bool]:
        return block.is_deleted == prefers_deleted, block.id in linked, user is not None and block.user_id == user

    best = max(map(get_rank, blocks), default=None)
    return [block for block in blocks if get_rank(block) == best]


def list_blocks(records: Records, scope: Scope, *, label: str | None, templates: bool, limit: int) -> list[Block]:
    """Return the blocks that a scope sees, or with `templates` the templates, ordered by label."""
    where = [*read_block_access(records, scope).conditions, Where("is_template", Op.EQ, templates)]
    if label is not None:
        where.append(Where("label", Op.EQ, label))
    return records.scan(Block, scope.organization, where, order="label", limit=limit)


def require_template(records: Records, scope: Scope, name: str) -> Block:
    """Return the template with this id or template name, preferring a template of the scope's user."""
    access = read_block_access(records, scope)
    template = records.get(Block, scope.organization, [name]).get(name)
    if template is not None and template.is_template and access.can_see(template):
        return template
    where = [*access.conditions, Where("template_name", Op.EQ, name), Where("is_template", Op.EQ, True)]
    nearest = _choose_nearest(access, records.scan(Block, scope.organization, where))
    if len(nearest) > 1:
        raise InvalidInput(f"{len(nearest)} templates are called {name!r}", value=name, remedy="name one by its id")
    if not nearest:
        raise NotFound(
            f"no template {name!r} in this scope",
            value=name,
            remedy=Remedy("{} with {} lists them", Verb("blocks"), Argument("templates", True)),
        )
    return nearest[0]


# what a scope may do with a block that it sees


def require_version(block: Block, expected: int | None) -> None:
    """Raise StaleVersion unless a block is at the version that the caller expects; None accepts any version."""
    if expected is not None and block.version != expected:
        raise StaleVersion(
            f"block {block.label!r} is at version {block.version}, not {expected}",
            value=block.id,
            remedy=Remedy("read it again and retry with {}", Argument("expected_version", block.version)),
            current_version=block.version,
        )


def require_changeable(scope: Scope, block: Block) -> None:
    """Raise Conflict if a scope of a user would change a template that every user sees."""
    if block.is_template and block.user_id is None and scope.user is not None:
        raise Conflict(
            f"template {block.id!r} belongs to no user, and others use it",
            value=block.id,
            remedy="use a scope without the user",
        )


def require_owned(scope: Scope, block: Block) -> None:
    """Raise Conflict if a scope of a user would delete or detach a block that every user of the agent sees."""
    if scope.user is not None and block.user_id is None:
        raise Conflict(
            f"block {block.label!r} belongs to no user, and others may need it",
            value=block.id,
            remedy="use a scope without the user",
        )


def require_unshared(records: Records, scope: Scope, block: Block) -> None:
    """Raise Conflict if a scope of an agent would delete a block of other agents, unless it is the user's own."""
    require_owned(scope, block)
    if scope.agent is None or (scope.user is not None and block.user_id == scope.user):
        return
    others = [agent for agent in find_agents(records, block) if agent != scope.agent]
    if others:
        noun = "another agent" if len(others) == 1 else f"{len(others)} other agents"
        raise Conflict(
            f"block {block.label!r} is also attached to {noun}",
            value=block.id,
            remedy=Remedy("detach it with {}, or use a scope without the agent", Verb("detach_block")),
        )


def require_free_label(records: Records, block: Block, agent: str | None) -> None:
    """Raise AlreadyExists if an agent has another block with this label for the same user."""
    if agent is None or block.is_template:
        return
    linked_ids = read_block_access(records, Scope(organization=block.organization_id, agent=agent)).linked_ids
    for other in records.get(Block, block.organization_id, linked_ids).values() if linked_ids else ():
        if (other.label, other.user_id) == (block.label, block.user_id) and other.id != block.id:
            raise AlreadyExists(
                f"agent {agent!r} has a block with the label {block.label!r}",
                value=other.id,
                remedy="change that one, or use another label",
                table="blocks",
                rule="label",
            )


def find_agents(records: Records, block: Block) -> list[str]:
    """Return the ids of the agents that a block is linked to, sorted."""
    where = [Where("block_id", Op.EQ, block.id)]
    return sorted(agent for (agent,) in records.columns(BlockAgent, block.organization_id, ("agent_id",), where))


def require_deleted_block(records: Records, scope: Scope, name: str) -> Block:
    """Return a deleted block of the scope; raise NotFound if it is not deleted, or was deleted with its owner."""
    block = require_block(records, scope, name, deleted=True, prefers_deleted=True)
    if block.deletion_id is None:
        raise NotFound(f"block {block.id!r} is not deleted", value=block.id, remedy="there is nothing to restore")
    user = _find_row(records, User, block.organization_id, block.user_id)
    organization = _find_row(records, Organization, block.organization_id, block.organization_id)
    for kind, owner in (("user", user), ("organization", organization)):
        if owner is not None and owner.deletion_id == block.deletion_id:
            fact = f"block {block.id!r} was deleted with its {kind}"
            raise NotFound(fact, value=block.id, remedy=f"restore the {kind}")
    return block


def _find_row(records: Records, entity: type[R], organization: str, row_id: str | None) -> R | None:
    return None if row_id is None else records.get(entity, organization, [row_id], deleted=True).get(row_id)
