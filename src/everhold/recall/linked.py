"""Select the blocks that a recall may return: those linked to the agent of the scope.

Links are read at each recall, so attaching or detaching a block does not change any image.
"""

from collections.abc import Callable

from everhold.model import Block, Scope
from everhold.model.base import Entity
from everhold.ports.block_access import read_block_access
from everhold.ports.records import Records
from everhold.recall.eligible import mask_owners
from everhold.recall.filters import Filter
from everhold.recall.image import Image, Mask
from everhold.schema.conditions import is_match, list_fields
from everhold.schema.operations import Condition, Op, Where


def make_block_conditions(records: Records, scope: Scope, block_filter: Filter) -> list[Condition]:
    """Return the conditions for the blocks that the scope sees. Templates are excluded unless the filter names them."""
    conditions = read_block_access(records, scope).conditions
    if "is_template" not in list_fields(block_filter.conditions):
        conditions.append(Where("is_template", Op.EQ, False))
    return conditions


def mask_seen_blocks(image: Image, records: Records, scope: Scope, block_filter: Filter) -> Mask:
    """Return the live rows of the blocks that may be returned."""
    conditions = make_block_conditions(records, scope, block_filter)
    ids = {block_id for (block_id,) in records.columns(Block, scope.organization, ("id",), conditions)}
    alive: Mask = image.column("alive")
    return alive & mask_owners(image, ids)


def make_block_check(records: Records, scope: Scope, block_filter: Filter) -> Callable[[Entity], bool]:
    """Return a function that says whether a stored block may be returned."""
    conditions = make_block_conditions(records, scope, block_filter)
    return lambda block: block.organization_id == scope.organization and is_match(block, conditions)
