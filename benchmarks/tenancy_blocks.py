"""Attempts to read and change blocks that a scope must not see."""

import itertools
from collections.abc import Callable

from benchmarks.tenancy_world import NAMES, TenancyWorld, require, require_refusal
from everhold import View
from everhold.model import Scope

# The users and agents of the blocks in each organization, by the blocks' ids.
OWNERS = {f"block-{user}-{agent}": (user, agent) for user, agent in itertools.product(NAMES["user"], NAMES["agent"])}


def is_seen(scope: Scope, block_id: str) -> bool:
    """Return whether a scope should see a block."""
    user, agent = OWNERS[block_id]
    if not scope.columns or (user is not None and user == scope.user):
        return True
    is_foreign = user is not None and scope.user is not None
    return agent is not None and agent == scope.agent and not is_foreign


def read_blocks(world: TenancyWorld, view: View) -> int:
    expected = {block_id for block_id in OWNERS if is_seen(view.scope, block_id)}
    blocks = view.blocks()
    require({block.id for block in blocks} == expected, (view.scope, blocks))
    require(all(f"of {view.scope.organization} " in block.value for block in blocks), (view.scope, blocks))
    return len(blocks)


def recall_blocks(world: TenancyWorld, view: View) -> int:
    hits = view.recall("private core of bolt alice bob", among="block", minimum=0, k=50)
    require({hit.id for hit in hits} == {block.id for block in view.blocks()}, (view.scope, hits))
    require(all(f"of {view.scope.organization} " in hit.text for hit in hits), (view.scope, hits))
    return len(hits)


def change_block(world: TenancyWorld, view: View) -> int:
    foreign_ids = [block_id for block_id in OWNERS if not is_seen(view.scope, block_id)]
    if not foreign_ids:
        return 0
    block_id = world.rng.choice(foreign_ids)
    calls: list[Callable[[], object]] = [
        lambda: view.block(block_id),
        lambda: view.block(block_id, as_of=world.began),
        lambda: view.write_block(block_id, "mine now"),
        lambda: view.append_block(block_id, "mine now"),
        lambda: view.replace_in_block(block_id, "private", "mine"),
        lambda: view.rewrite_block_lines(block_id, 1, 1, "mine"),
        lambda: view.update_block(block_id, limit=5000),
        lambda: view.undo_block(block_id),
        lambda: view.block_history(block_id),
        lambda: view.diff_block(block_id),
        lambda: view.block_agents(block_id),
        lambda: view.delete_block(block_id, hard=world.rng.random() < 0.5),
        lambda: view.restore_block(block_id),
        lambda: view.attach_block(block_id, agent=view.scope.agent or "spy"),
    ]
    message = require_refusal(world.rng.choice(calls))
    require("private" not in message, message)
    return 0
