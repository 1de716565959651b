"""The verbs on blocks: texts that are always part of an agent's prompt."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, Unpack

from everhold.arguments.checks import BlockName, Body, Identifier, LineNumber, ListLength
from everhold.arguments.verbs import check_verbs, log_as
from everhold.blocks import history
from everhold.blocks.deps import BlockDeps
from everhold.blocks.editing import append_text, replace_text, rewrite_lines
from everhold.blocks.links import attach_block, detach_block
from everhold.blocks.lookup import find_agents, list_blocks, require_block, require_deleted_block, require_unshared
from everhold.blocks.pipeline import BlockEdit, change_block, create_block
from everhold.errors import Argument, InvalidInput, Remedy
from everhold.model import Block, Revision
from everhold.ports.block_access import list_prompt_blocks
from everhold.remember.chunks import make_chunks_or_words
from everhold.tenancy import deletion
from everhold.tenancy.deletion import Deleted
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView
from everhold.views.deletion import count_rows


class BlockFields(TypedDict, total=False):
    """The fields of a block that a caller may change, except its value."""

    limit: int
    description: Body | None
    template_name: str | None
    metadata: Mapping[str, Any]


class NewBlockFields(BlockFields, total=False):
    """The fields of a new block, except its label and value."""

    id: Identifier
    is_template: bool


@check_verbs
class BlockVerbs(ScopedView):
    """The blocks of the scope's agent and user."""

    @log_as("create")
    def create_block(
        self,
        /,
        label: str | None = None,
        value: Body | None = None,
        *,
        template: BlockName | None = None,
        **fields: Unpack[NewBlockFields],
    ) -> Block:
        """Create a block of the scope's user, attached to the scope's agent.

        `label` says what it is about: "human", "persona", "system" or your own word. It cannot be changed later.
        `value` may have at most `limit` characters; the default is 2,000. `template` names a template to copy. Fields:
        limit, description, template_name, metadata, id, is_template. Repeating a call with the same `id` adds nothing.
        """
        label_and_value = {name: text for name, text in (("label", label), ("value", value)) if text is not None}
        return create_block(self._block_deps, self.scope, {**label_and_value, **fields}, template)

    @log_as("read")
    def block(self, name: BlockName, *, as_of: datetime | None = None) -> Block:
        """Return the block with this id or label; with `as_of`, as it was at that time."""
        records = self._parts.records
        block = require_block(records, self.scope, name)
        self._log_call("read", {"block": block.id})
        return block if as_of is None else history.read_block_at(records, block, as_of)

    @log_as("read")
    def blocks(self, *, label: str | None = None, templates: bool = False, limit: ListLength = 50) -> list[Block]:
        """Return the blocks that the scope sees, by label; with `templates`, the templates instead."""
        rows = list_blocks(self._parts.records, self.scope, label=label, templates=templates, limit=limit)
        self._log_call("read", {"blocks": len(rows)})
        return rows

    @log_as("update")
    def write_block(
        self, name: BlockName, value: Body, *, reason: Body | None = None, expected_version: int | None = None
    ) -> Block:
        """Replace the value of a block; the old value is kept in its history.

        Raise StaleVersion if the block's version is not `expected_version`, or if another caller changes it at the same
        time.
        """
        return self._change(name, lambda _: {"value": value}, reason, expected_version)

    @log_as("update")
    def append_block(
        self, name: BlockName, text: Body, *, reason: Body | None = None, expected_version: int | None = None
    ) -> Block:
        """Add a text to the end of a block, on a line of its own."""
        return self._change(
            name, lambda block: {"value": append_text(block, text)}, reason, expected_version, is_relative=True
        )

    @log_as("update")
    def replace_in_block(
        self,
        name: BlockName,
        old: Body,
        new: Body,
        *,
        every: bool = False,
        reason: Body | None = None,
        expected_version: int | None = None,
    ) -> Block:
        """Replace a part of a block's value.

        `old` must occur exactly once; with `every`, all occurrences are replaced.
        """
        return self._change(
            name,
            lambda block: {"value": replace_text(block, old, new, every=every)},
            reason,
            expected_version,
            is_relative=True,
        )

    @log_as("update")
    def rewrite_block_lines(
        self,
        name: BlockName,
        first: LineNumber,
        last: LineNumber,
        text: Body,
        *,
        reason: Body | None = None,
        expected_version: int | None = None,
    ) -> Block:
        """Replace the lines `first` to `last` of a block, counted from 1, by the lines of `text`.

        An empty `text` deletes the lines. With `last` one less than `first`, the text is inserted before line `first`.
        """
        return self._change(
            name, lambda block: {"value": rewrite_lines(block, first, last, text)}, reason, expected_version
        )

    @log_as("update")
    def update_block(
        self,
        name: BlockName,
        /,
        *,
        reason: Body | None = None,
        expected_version: int | None = None,
        **fields: Unpack[BlockFields],
    ) -> Block:
        """Change the limit, the description, the template name or the metadata of a block.

        Its label is fixed, because agents are linked to the block by its id and label.
        """
        if not fields:
            raise InvalidInput(
                "update_block has nothing to change", remedy=f"pass {', '.join(BlockFields.__annotations__)}"
            )
        return self._change(name, lambda _: fields, reason, expected_version)

    @log_as("update")
    def attach_block(self, name: BlockName, *, agent: Identifier | None = None) -> Block:
        """Put a block into the context of an agent, the scope's own by default; several agents may share a block."""
        return attach_block(self._block_deps, self.scope, name, agent)

    @log_as("update")
    def detach_block(self, name: BlockName, *, agent: Identifier | None = None) -> Block:
        """Take a block out of the context of an agent, the scope's own by default."""
        return detach_block(self._block_deps, self.scope, name, agent)

    @log_as("read")
    def block_agents(self, name: BlockName) -> list[str]:
        """Return the ids of the agents that a block is attached to."""
        block = require_block(self._parts.records, self.scope, name)
        agents = find_agents(self._parts.records, block)
        self._log_call("read", {"block": block.id, "agents": len(agents)})
        return agents

    @log_as("read")
    def block_history(self, name: BlockName) -> list[Revision]:
        """Return the states of a block before each of its changes, oldest first.

        The number of a revision is the version that the block had then.
        """
        block = require_block(self._parts.records, self.scope, name)
        self._log_call("read", {"block": block.id, "history": True})
        return history.read_revisions(self._parts.records, block)

    @log_as("read")
    def diff_block(self, name: BlockName, from_version: int | None = None, to_version: int | None = None) -> str:
        """Return a unified diff of a block's value between two versions, by default before and after the last
        change."""
        block = require_block(self._parts.records, self.scope, name)
        self._log_call("read", {"block": block.id, "diff": True})
        return history.diff_versions(self._parts.records, block, from_version, to_version)

    @log_as("update")
    def undo_block(
        self, name: BlockName, *, to_version: int | None = None, expected_version: int | None = None
    ) -> Block:
        """Undo the last change of a block that is not undone yet. Each further call undoes one more change.

        With `to_version`, restore that version instead, even if it was undone. An undo is itself a change in the
        history.
        """
        records = self._parts.records
        return change_block(
            self._block_deps,
            self.scope,
            name,
            lambda block: history.plan_undo(records, block, to_version),
            reason="undo",
            expected_version=expected_version,
        )

    @log_as("read")
    def render_blocks(self, *, numbered: bool = False) -> str:
        """Return the blocks of the scope's agent and user as a section for a prompt, marked as data.

        Each block is shown with its label, its description and how much of its limit is used. With `numbered`, its
        lines have numbers.
        """
        from everhold.context.blocks import render_blocks

        if self.scope.agent is None and self.scope.user is None:
            raise InvalidInput(
                "the scope names no agent and no user",
                remedy=Remedy("name one with {} or {}", Argument("agent", "ID"), Argument("user", "ID")),
            )
        blocks = list_prompt_blocks(self._parts.records, self.scope)
        self._log_call("read", {"blocks": len(blocks), "rendered": True})
        return render_blocks(blocks, numbered=numbered)

    @log_as("delete")
    def delete_block(self, name: BlockName, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide a block with its history until `restore_block`.

        With `hard` it is purged; with `preview` its rows are only counted. Raise Conflict if other agents, or other
        users of an agent, use the block too.
        """
        records = self._parts.records
        block = require_block(records, self.scope, name, deleted=hard)
        require_unshared(records, self.scope, block)
        rows = count_rows(self._parts, "block", block.organization_id, block.id, hard=hard)
        if preview:
            self._log_call("read", {"block": block.id, "preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        line = self._make_line("delete", {"block": block.id, "hard": hard})
        deletion.delete(records, "block", block.organization_id, block.id, hard=hard, line=line)
        if hard:
            self._parts.write_deps.drop_cached_texts()
        return Deleted(rows)

    @log_as("update")
    def restore_block(self, name: BlockName) -> Block:
        """Restore a deleted block with its history, and attach it to its agents again."""
        records = self._parts.records
        block = require_deleted_block(records, self.scope, name)
        require_unshared(records, self.scope, block)
        line = self._make_line("update", {"block": block.id, "restored": True})
        deletion.restore(records, "block", block.organization_id, block.id, line)
        return require_block(records, self.scope, block.id)

    def _change(
        self,
        name: str,
        edit: Callable[[Block], Mapping[str, Any]],
        reason: str | None,
        expected_version: int | None,
        *,
        is_relative: bool = False,
    ) -> Block:
        """Change a block by the values that `edit` makes from its current state, and return it."""
        return change_block(
            self._block_deps,
            self.scope,
            name,
            lambda block: BlockEdit(edit(block)),
            reason=reason,
            expected_version=expected_version,
            is_relative=is_relative,
        )

    @property
    def _block_deps(self) -> BlockDeps:
        """The dependencies of the verbs on blocks, made at each use, because a change of model replaces the
        chunking."""
        parts = self._parts
        scope_rows, chunking = parts.write_deps.scope_rows, parts.write_deps.chunking
        return BlockDeps(
            parts.records,
            scope_rows.make_missing_rows,
            scope_rows.invalidate,
            partial(make_chunks_or_words, chunking=chunking),
            parts.settings.text_bytes,
            parts.settings.interface,
        )


class AsyncBlockVerbs(AsyncFacade):
    """The verbs of `BlockVerbs`, awaited."""

    create_block = Awaited(BlockVerbs.create_block)
    block = Awaited(BlockVerbs.block)
    blocks = Awaited(BlockVerbs.blocks)
    write_block = Awaited(BlockVerbs.write_block)
    append_block = Awaited(BlockVerbs.append_block)
    replace_in_block = Awaited(BlockVerbs.replace_in_block)
    rewrite_block_lines = Awaited(BlockVerbs.rewrite_block_lines)
    update_block = Awaited(BlockVerbs.update_block)
    attach_block = Awaited(BlockVerbs.attach_block)
    detach_block = Awaited(BlockVerbs.detach_block)
    block_agents = Awaited(BlockVerbs.block_agents)
    block_history = Awaited(BlockVerbs.block_history)
    diff_block = Awaited(BlockVerbs.diff_block)
    undo_block = Awaited(BlockVerbs.undo_block)
    render_blocks = Awaited(BlockVerbs.render_blocks)
    delete_block = Awaited(BlockVerbs.delete_block)
    restore_block = Awaited(BlockVerbs.restore_block)
