"""The rule that decides which blocks a scope sees. The verbs, prompts and recall share it.

A scope without dimensions sees every block of its organization. Any other scope sees the blocks of its user. It also
sees the blocks that are linked to its agent, except those of other users. Templates without a user are visible to all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from everhold.model import Block, BlockAgent, Scope
from everhold.ports.records import Records
from everhold.schema.conditions import is_match
from everhold.schema.operations import AllOf, AnyOf, Condition, Op, Where


@dataclass(frozen=True)
class BlockAccess:
    """The rule for one scope. `linked_ids` are the ids of the blocks that are linked to the scope's agent."""

    scope: Scope
    linked_ids: Sequence[str] = ()

    @property
    def conditions(self) -> list[Condition]:
        """The conditions for the blocks of the organization that the scope sees."""
        user = self.scope.user
        if not self.scope.columns:
            return []
        options: list[Condition] = [AllOf((Where("is_template", Op.EQ, True), Where("user_id", Op.EQ, None)))]
        if user is not None:
            options.append(Where("user_id", Op.EQ, user))
        if self.linked_ids:
            linked = Where("id", Op.IN, self.linked_ids)
            options.append(linked if user is None else AllOf((linked, Where("user_id", Op.EQ, None))))
        return [AnyOf(tuple(options))]

    def can_see(self, block: Block) -> bool:
        """Return whether the scope sees a block."""
        return block.organization_id == self.scope.organization and is_match(block, self.conditions)


def read_block_access(records: Records, scope: Scope, *, deleted: bool = False) -> BlockAccess:
    """Return the rule for a scope; with `deleted`, the links of deleted blocks are included."""
    if scope.agent is None:
        return BlockAccess(scope)
    where = [Where("agent_id", Op.EQ, scope.agent)]
    rows = records.columns(BlockAgent, scope.organization, ("block_id",), where, deleted=deleted)
    return BlockAccess(scope, sorted({block_id for (block_id,) in rows}))


def list_prompt_blocks(records: Records, scope: Scope) -> list[Block]:
    """Return the blocks for a prompt: those of the scope's agent, then those of its user, each by label.

    If the scope has neither an agent nor a user, there are no blocks.
    """
    access = read_block_access(records, scope)
    linked_blocks = (
        list(records.get(Block, scope.organization, access.linked_ids).values()) if access.linked_ids else []
    )
    user_blocks = []
    if scope.user is not None:
        user_blocks = records.scan(Block, scope.organization, [Where("user_id", Op.EQ, scope.user)])
    ordered_blocks = [*sorted(linked_blocks, key=_get_sort_key), *sorted(user_blocks, key=_get_sort_key)]
    return list(
        {block.id: block for block in ordered_blocks if not block.is_template and access.can_see(block)}.values()
    )


def _get_sort_key(block: Block) -> tuple[str, str]:
    return block.label, block.id
