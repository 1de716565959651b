"""The verbs on single memories: store, change, forget, link, tag, read and list them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any, Unpack

from everhold.access.reading import read_log
from everhold.arguments.checks import Body, Cursor, ListLength, MemoryId, Only, PageSize, WalkDepth
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import Argument, InvalidInput, NotFound, Remedy
from everhold.model import AccessLog, Change, Memory, Relationship, Revision
from everhold.recall.details import read_tags
from everhold.recall.filters import FilterArguments, make_filter
from everhold.recall.kinds import within_namespaces
from everhold.recall.listing import Listing, count_matching, list_matching_ids, read_listing
from everhold.remember import forget, merge, relate, revise, undo
from everhold.remember.draft import MemoryFields, MemoryInput
from everhold.remember.forget import MAX_SHOWN, Forgotten
from everhold.remember.lookup import require_memory
from everhold.remember.merge import Merged
from everhold.remember.pipeline import BATCH, remember
from everhold.remember.relate import Related
from everhold.schema.operations import Op, Where
from everhold.sessions.deletion import delete_message
from everhold.sessions.messages import find_readable
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

# A text, or the arguments of `remember` by name.
MemoryItem = str | MemoryInput
# Is called with the number of memories that each batch has finished.
Progress = Callable[[int], None]


@check_verbs
class MemoryVerbs(ScopedView):
    """The verbs that store, change, forget, link, tag, read and list memories."""

    @log_as("create")
    def remember(self, text: Body = "", **fields: Unpack[MemoryFields]) -> Memory:
        """Store one memory and return it. It is stored durably before the call returns.

        If the same text is stored already, that memory is reinforced and returned. Pass `priority`, from 1 to 10, or
        `importance`, from 0 to 1, but not both. docs/remember.md describes the other fields.
        """
        return remember(self._parts.write_deps, self.scope, [{"text": text, **fields} if text else fields])[0]

    @log_as("create")
    def remember_many(self, items: Iterable[MemoryItem], *, progress: Progress | None = None) -> list[Memory]:
        """Store many memories, each a text or a mapping of the arguments of `remember`, in commits of 2,048."""
        memories: list[Memory] = []
        for batch in _split(items):
            memories += remember(self._parts.write_deps, self.scope, batch)
            if progress:
                progress(len(batch))
        return memories

    @log_as("update")
    def revise(
        self,
        memory_id: MemoryId,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        text: Body | None = None,
        **changes: Unpack[MemoryFields],
    ) -> Memory:
        """Change fields of a memory. `history` and `recall(as_of=…)` return its earlier text.

        Raise StaleVersion if `expected_version` is passed and the memory has another version. Pass it if the new value
        depends on one that you have read.
        """
        values = changes if text is None else {"text": text, **changes}
        return revise.revise(self._parts.write_deps, self.scope, memory_id, values, reason, expected_version)

    @log_as("update")
    def supersede(
        self,
        memory_id: MemoryId,
        text: Body = "",
        *,
        expected_version: int | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Memory:
        """Store a memory that replaces another one. Recall returns the other only for questions about the past."""
        values = {"text": text, **fields} if text else fields
        return revise.supersede(self._parts.write_deps, self.scope, memory_id, values, expected_version)

    @log_as("update")
    def undo(self, memory_id: MemoryId | None = None) -> Change:
        """Undo the last change to a memory, or the scope's last change: revise, supersede, merge or forget."""
        return undo.undo(self._parts.write_deps, self.scope, memory_id)

    @log_as("delete")
    def forget(
        self,
        memory_id: MemoryId,
        *,
        hard: bool = False,
        with_messages: bool = False,
        expected_version: int | None = None,
    ) -> Memory:
        """Hide a memory until `undo`. `hard` purges the memory and everything that was derived from it.

        If the returned memory has `message_ids`, it was derived from these messages of sessions, and they still have
        its content. `with_messages` deletes them too.
        """
        write_deps, session_deps = self._parts.write_deps, self._parts.session_deps
        memory = forget.forget(write_deps, self.scope, memory_id, hard=hard, expected_version=expected_version)
        for message_id in memory.message_ids if with_messages else ():
            with suppress(NotFound):  # it may have been deleted before
                delete_message(session_deps, self.scope, message_id, forget.make_message_eraser(write_deps), hard=hard)
        return memory

    @log_as("delete")
    def forget_where(
        self,
        *,
        hard: bool = False,
        preview: bool = False,
        everything: bool = False,
        only: Only | None = None,
        progress: Progress | None = None,
        **filters: Unpack[FilterArguments],
    ) -> Forgotten:
        """Forget every memory that matches the filters; with `preview`, only return these memories.

        Filters: kind, tags, where, after, before. Pass at least one filter, or `everything=True` to forget all memories
        of the scope. In a view with a session, `everything=True` forgets only the memories of the session.
        `only="session"` limits filters to the memories of the session.
        """
        scope = self._narrow(only)
        if everything:  # a view with a user and a session reads all of the user's memories, but must not delete them
            scope = scope.confine()
        condition = make_filter(**filters)
        if bool(condition) == everything:
            raise InvalidInput(
                "forget_where needs either a filter or everything=True",
                remedy=Remedy("pass a filter, or {} for all memories of the scope", Argument("everything", True)),
            )
        ids = list_matching_ids(self._parts.records, scope, condition)
        first_ids = ids[:MAX_SHOWN]
        by_id = self._parts.records.get(Memory, self.scope.organization, first_ids)
        first_memories = tuple(by_id[memory_id] for memory_id in first_ids if memory_id in by_id)
        derived_memories = (
            forget.find_derived_from(self._parts.write_deps, self.scope.organization, ids) if hard else []
        )
        message_ids = [message_id for memory in first_memories for message_id in memory.message_ids]
        messages = find_readable(self._parts.session_deps, scope, message_ids)
        if preview or not ids:
            self._log_call("read", {"preview": len(ids)})
            return Forgotten(len(ids), first_memories, preview, tuple(derived_memories[:MAX_SHOWN]), messages)
        count = forget.forget_all(self._parts.write_deps, scope, ids, hard=hard, progress=progress)
        return Forgotten(count, first_memories, False, tuple(derived_memories[:MAX_SHOWN]), messages)

    @log_as("update")
    def merge_duplicates(self, *, preview: bool = False) -> Merged:
        """Merge near-duplicate memories; with `preview`, only return the pairs that would be merged.

        Of two duplicates, the more important memory is kept, or the older one if both are equally important. It gets
        the tags, aliases and provenance of the other memory. `undo` undoes the merge of one memory.
        """
        merged = merge.merge_duplicates(self._parts.write_deps, self.scope, preview=preview)
        if preview:
            self._log_call("read", {"preview": merged.count})
        return merged

    @log_as("update")
    def relate(
        self,
        source_id: MemoryId,
        target_id: MemoryId,
        relationship_type: str = "related_to",
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Relationship:
        """Link two memories. `metadata` is your own data about the link."""
        return relate.relate(
            self._parts.write_deps, self.scope, source_id, target_id, relationship_type, metadata or {}
        )

    @log_as("update")
    def tag(self, memory_id: MemoryId, *tags: str) -> tuple[str, ...]:
        """Add tags and return all tags of the memory."""
        relate.tag(self._parts.write_deps, self.scope, memory_id, tags)
        return self._read_tags(memory_id)

    @log_as("update")
    def untag(self, memory_id: MemoryId, *tags: str) -> tuple[str, ...]:
        """Remove tags and return the remaining tags of the memory."""
        relate.untag(self._parts.write_deps, self.scope, memory_id, tags)
        return self._read_tags(memory_id)

    def _read_tags(self, memory_id: str) -> tuple[str, ...]:
        memory = require_memory(self._parts.records, self.scope, memory_id)
        return read_tags(self._parts.records, self.scope.organization, [memory.id]).get(memory.id, ())

    @log_as("read")
    def get(self, memory_id: MemoryId) -> Memory:
        """Return one memory by its id, or by the key that the caller gave it."""
        memory = require_memory(self._parts.records, self.scope, memory_id)
        self._log_call("read", {"memory": memory.id}, [memory.id], memory_id=memory.id)
        return memory

    @log_as("read")
    def list(
        self,
        *,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
        oldest_first: bool = False,
        only: Only | None = None,
        namespace: str | Sequence[str] | None = None,
        **filters: Unpack[FilterArguments],
    ) -> Listing:
        """Return a page of memories, newest first. Filters: kind, tags, where, after, before.

        `namespace` names one or more namespaces; the default is all. `only="session"` returns only memories of the
        view's session.
        """
        page = read_listing(
            self._parts.records,
            self._narrow(only),
            within_namespaces(make_filter(**filters), namespace),
            limit=limit,
            cursor=cursor,
            oldest_first=oldest_first,
        )
        self._log_call("read", {"listed": len(page)})
        return page

    @log_as("read")
    def count(self, *, only: Only | None = None, **filters: Unpack[FilterArguments]) -> int:
        """Return the number of memories that match the filters: kind, tags, where, after, before.

        `only="session"` counts only memories of the view's session.
        """
        number = count_matching(self._parts.records, self._narrow(only), make_filter(**filters))
        self._log_call("read", {"counted": number})
        return number

    @log_as("read")
    def history(self, memory_id: MemoryId) -> Sequence[Revision]:
        """Return the revisions of a memory, oldest first. Each has the values from before the change."""
        memory = require_memory(self._parts.records, self.scope, memory_id)
        where = [Where("owner_kind", Op.EQ, "memory"), Where("owner_id", Op.EQ, memory.id)]
        revisions = self._parts.records.scan(Revision, self.scope.organization, where, order="revision")
        self._log_call("read", {"memory": memory.id, "history": True}, memory_id=memory.id)
        return revisions

    @log_as("read")
    def relations(
        self, memory_id: MemoryId, *, depth: WalkDepth = 1, relationship_type: str | None = None
    ) -> Sequence[Related]:
        """Return the memories that are linked to this one by up to `depth` relationships, nearest first."""
        related = relate.relations(
            self._parts.records, self.scope, memory_id, depth=depth, relationship_type=relationship_type
        )
        self._log_call("read", {"related": len(related)}, [item.memory.id for item in related])
        return related

    @log_as("read")
    def tags(self) -> dict[str, int]:
        """Return the number of memories for each tag."""
        counts = relate.count_tags(self._parts.records, self.scope)
        self._log_call("read", {"tags": len(counts)})
        return counts

    @log_as("read")
    def tags_of(self, memory_ids: Sequence[MemoryId]) -> dict[str, tuple[str, ...]]:
        """Return the tags of each of these memories. Memories without tags are left out."""
        memories = self._parts.records.get(Memory, self.scope.organization, memory_ids)
        readable_ids = [memory_id for memory_id, memory in memories.items() if self.scope.can_read(memory)]
        self._log_call("read", {"tagged": len(readable_ids)})
        return read_tags(self._parts.records, self.scope.organization, readable_ids)

    def log(
        self,
        *,
        operation: str | None = None,
        memory_id: MemoryId | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: ListLength = 100,
    ) -> Sequence[AccessLog]:
        """Return lines of the access log about this scope, newest first. Pass `before` to read older lines."""
        self._parts.access.flush()
        return read_log(self._parts.records, self.scope, limit, operation, memory_id, after, before)


def _split(items: Iterable[MemoryItem]) -> Iterator[Sequence[MemoryItem]]:
    """Yield batches of items. Each is one commit."""
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH)):
        yield batch


class AsyncMemoryVerbs(AsyncFacade):
    """The verbs of `MemoryVerbs`, awaited."""

    remember = Awaited(MemoryVerbs.remember)
    remember_many = Awaited(MemoryVerbs.remember_many)
    revise = Awaited(MemoryVerbs.revise)
    supersede = Awaited(MemoryVerbs.supersede)
    undo = Awaited(MemoryVerbs.undo)
    forget = Awaited(MemoryVerbs.forget)
    forget_where = Awaited(MemoryVerbs.forget_where)
    merge_duplicates = Awaited(MemoryVerbs.merge_duplicates)
    relate = Awaited(MemoryVerbs.relate)
    tag = Awaited(MemoryVerbs.tag)
    untag = Awaited(MemoryVerbs.untag)
    get = Awaited(MemoryVerbs.get)
    list = Awaited(MemoryVerbs.list)
    count = Awaited(MemoryVerbs.count)
    history = Awaited(MemoryVerbs.history)
    relations = Awaited(MemoryVerbs.relations)
    tags = Awaited(MemoryVerbs.tags)
    tags_of = Awaited(MemoryVerbs.tags_of)
    log = Awaited(MemoryVerbs.log)
