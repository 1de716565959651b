"""The verbs on one scope's data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Unpack

from everhold import clock
from everhold.access.reading import read_log
from everhold.arguments.checks import Body, Budget, Cursor, HitCount, MemoryId, PageSize, Question, WalkDepth
from everhold.arguments.failures import FAILURES
from everhold.arguments.verbs import check_verbs
from everhold.context.counting import count
from everhold.context.pipeline import assemble
from everhold.context.providers import MOST_TURNS, Source, providers_of, zone_of
from everhold.context.section import Context
from everhold.errors import EverholdError, InvalidInput
from everhold.model import AccessLog, Change, Memory, Relationship, Revision, Scope
from everhold.model.access import Act
from everhold.model.fields import is_id
from everhold.parts import Parts
from everhold.ports.reranker import Reranker
from everhold.recall.filters import check_include, make_filter
from everhold.recall.hit import Hits
from everhold.recall.listing import Listing, listing, matching_ids
from everhold.recall.pinned import pinned
from everhold.recall.pipeline import Request, recall, tags_of
from everhold.recall.recipe import HYBRID, Recipe, recipe_named
from everhold.recall.reranking import recall_reranked
from everhold.recall.why_not import WhyNot, why_not
from everhold.remember import forget, merge, relate, revise, undo
from everhold.remember.draft import MemoryFields
from everhold.remember.forget import SHOWN, Forgotten
from everhold.remember.held import held
from everhold.remember.merge import Merged
from everhold.remember.pipeline import BATCH, remember
from everhold.remember.relate import Related
from everhold.schema.operations import Op, Where
from everhold.sessions.host import Host
from everhold.sessions.verbs import SessionVerbs
from everhold.sessions.working import last_messages

Item = str | Mapping[str, Any]
Words = str | Sequence[str] | None
Progress = Callable[[int], None]


@check_verbs(FAILURES)
class View(SessionVerbs):
    """What one scope may see and do; the only way to data."""

    def __init__(self, parts: Parts, scope: Scope) -> None:
        self._parts = parts
        self.scope = scope

    @property
    def _host(self) -> Host:
        return self._parts.host

    # keeping

    def remember(self, text: Body = "", **fields: Unpack[MemoryFields]) -> Memory:
        """Store one memory, durably, before returning. A duplicate reinforces the stored memory.

        `priority` is 1 to 10, `importance` the same as 0 to 1; the other fields are described in docs/remember.md.
        """
        return self._remember([{"text": text, **fields} if text else fields])[0]

    def remember_many(self, items: Iterable[Item], *, progress: Progress | None = None) -> list[Memory]:
        """Keeps many memories: sentences, or fields by name. Every 2,048 are one commit."""
        kept: list[Memory] = []
        batch: list[Item] = []
        for item in items:
            batch.append(item)
            if len(batch) == BATCH:
                kept += self._kept(batch, progress)
                batch = []
        return kept + self._kept(batch, progress) if batch else kept

    def _kept(self, batch: Sequence[Item], progress: Progress | None) -> list[Memory]:
        kept = self._remember(batch)
        if progress:
            progress(len(batch))
        return kept

    def _remember(self, items: Sequence[Item]) -> list[Memory]:
        with self._noting_failure("create"):
            return remember(self._parts.keeper, self.scope, items)

    def revise(
        self,
        memory_id: MemoryId,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        text: Body | None = None,
        **changes: Unpack[MemoryFields],
    ) -> Memory:
        """Change what a memory says. What it said before is kept: see `history` and `recall(as_of=…)`.

        StaleVersion if the memory is not at `expected_version`. Pass it whenever the new value depends on one you read.
        """
        with self._noting_failure("update", memory_id):
            given = changes if text is None else {"text": text, **changes}
            return revise.revise(self._parts.keeper, self.scope, memory_id, given, reason, expected_version)

    def supersede(
        self,
        memory_id: MemoryId,
        text: Body = "",
        *,
        expected_version: int | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Memory:
        """Store a memory that takes another's place; the other is no longer recalled, but not lost."""
        with self._noting_failure("update", memory_id):
            given = {"text": text, **fields} if text else fields
            return revise.supersede(self._parts.keeper, self.scope, memory_id, given, expected_version)

    def undo(self, memory_id: MemoryId | None = None) -> Change:
        """Undo the last change to a memory, or the scope's last change: revise, supersede, merge or forget."""
        with self._noting_failure("update", memory_id):
            return undo.undo(self._parts.keeper, self.scope, memory_id)

    def forget(self, memory_id: MemoryId, *, hard: bool = False, expected_version: int | None = None) -> Memory:
        """Hide a memory until `undo`; with `hard`, purge it with what was derived from it."""
        with self._noting_failure("delete", memory_id):
            return forget.forget(
                self._parts.keeper, self.scope, memory_id, hard=hard, expected_version=expected_version
            )

    def forget_where(
        self,
        *,
        kind: Words = None,
        tags: Words = None,
        where: Mapping[str, Any] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        hard: bool = False,
        preview: bool = False,
        progress: Progress | None = None,
    ) -> Forgotten:
        """Forgets every memory that a filter finds; with `preview`, only shows which those are."""
        with self._noting_failure("delete"):
            wanted = make_filter(where, kind=kind, tags=tags, after=after, before=before)
            if not wanted:
                raise InvalidInput(
                    "forget_where needs a filter; to forget everything of a scope pass where={'id': {'>': ''}}"
                )
            ids = matching_ids(self._parts.records, self.scope, wanted)
            found = self._parts.records.get(Memory, self.scope.organization, ids[:SHOWN])
            shown = tuple(found[one] for one in ids[:SHOWN] if one in found)
            derived = forget.find_derived_from(self._parts.keeper, self.scope.organization, ids) if hard else []
            if preview or not ids:
                self._note("read", {"preview": len(ids)})
                return Forgotten(len(ids), shown, preview, tuple(derived[:SHOWN]))
            count = forget.forget_all(self._parts.keeper, self.scope, ids, hard=hard, progress=progress)
        return Forgotten(count, shown, False, tuple(derived[:SHOWN]))

    def merge_duplicates(self, *, preview: bool = False) -> Merged:
        """Merges memories that say the same in nearly the same words; with `preview`, only shows which those are.

        The more important one stays, or the older; it gets the other's tags, aliases and provenance. `undo` takes
        one such change back.
        """
        with self._noting_failure("update"):
            merged = merge.merge_duplicates(self._parts.keeper, self.scope, preview=preview)
        if preview:
            self._note("read", {"preview": merged.count})
        return merged

    def relate(
        self, /, source_id: MemoryId, target_id: MemoryId, relationship_type: str = "related_to", **metadata: Any
    ) -> Relationship:
        """Links two memories."""
        with self._noting_failure("update", source_id):
            return relate.relate(self._parts.keeper, self.scope, source_id, target_id, relationship_type, metadata)

    def tag(self, memory_id: MemoryId, *tags: str) -> tuple[str, ...]:
        """Add tags and return all tags of the memory."""
        with self._noting_failure("update", memory_id):
            relate.tag(self._parts.keeper, self.scope, memory_id, tags)
        return self._tags_of(memory_id)

    def untag(self, memory_id: MemoryId, *tags: str) -> tuple[str, ...]:
        """Remove tags and return those that are left."""
        with self._noting_failure("update", memory_id):
            relate.untag(self._parts.keeper, self.scope, memory_id, tags)
        return self._tags_of(memory_id)

    def _tags_of(self, memory_id: MemoryId) -> tuple[str, ...]:
        memory = held(self._parts.records, self.scope, memory_id)
        return tags_of(self._parts.records, self.scope.organization, [memory.id]).get(memory.id, ())

    # finding

    def recall(
        self,
        query: Question,
        *,
        k: HitCount = 10,
        kind: Words = None,
        tags: Words = None,
        where: Mapping[str, Any] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        as_of: datetime | None = None,
        minimum: float | None = None,
        include: str | Sequence[str] = (),
        cursor: Cursor | None = None,
        recipe: str | Recipe = HYBRID,
        asked_at: datetime | None = None,
        reranker: Reranker | None = None,
    ) -> Hits:
        """The memories that answer a question, the best first, each with why; none if none does.

        `minimum` is the least score of a hit; without it the recipe's own holds, and 0 returns the best k whatever
        their scores. Times that the question names are meant as of `asked_at`, or now. A `reranker` puts the best 50
        in its own order.
        """
        with self._noting_failure("search"):
            wanted = make_filter(where, kind=kind, tags=tags, after=after, before=before)
            request = Request(
                query, k, wanted, as_of, minimum, check_include(include), cursor, recipe_named(recipe), asked_at
            )
            if reranker is None:
                hits = recall(self._parts.seeker, self.scope, request)
            else:
                hits = recall_reranked(self._parts.seeker, self.scope, request, reranker)
        noted = {"k": k, "hits": len(hits), "length": len(query)}
        self._note("search", noted, [hit.memory.id for hit in hits])
        return hits

    def context(
        self,
        question: Question,
        *,
        budget: Budget = 1000,
        k: HitCount = 20,
        kind: Words = None,
        tags: Words = None,
        where: Mapping[str, Any] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        minimum: float | None = None,
        include: str | Sequence[str] = (),
        timezone: str | None = None,
    ) -> Context:
        """A section for a prompt: what is pinned, core memory, the session so far, and what the question recalls.

        It has at most `budget` tokens. The filters narrow what is recalled; `include` is for what is pinned, too.
        """
        with self._noting_failure("search"):
            records, wider = self._parts.records, check_include(include)
            wanted = make_filter(where, kind=kind, tags=tags, after=after, before=before)
            request = Request(question, k, wanted, minimum=minimum, include=wider)
            zone = zone_of(records, self.scope, timezone, self._parts.settings.timezone)
            now = clock.now()
            found = providers_of(
                Source(records, self.scope, now, zone),
                lambda: pinned(records, self.scope, wider, now),
                lambda: last_messages(self._host, self.scope, MOST_TURNS),
                lambda: [hit.memory for hit in recall(self._parts.seeker, self.scope, request)],
            )
            made = assemble(found, budget, partial(count, self._parts.keeper.chunking.tokenizer))
        noted = {"k": k, "budget": budget, "hits": len(made.memories), "length": len(question)}
        self._note("search", noted, [memory.id for memory in made.memories])
        return made

    def why_not(
        self,
        memory_id: MemoryId,
        query: Question,
        *,
        k: HitCount = 10,
        kind: Words = None,
        tags: Words = None,
        where: Mapping[str, Any] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        as_of: datetime | None = None,
        minimum: float | None = None,
        include: str | Sequence[str] = (),
        recipe: str | Recipe = HYBRID,
        asked_at: datetime | None = None,
    ) -> WhyNot:
        """Why a memory does not answer a question asked like that, or that it does."""
        with self._noting_failure("search", memory_id):
            memory = held(self._parts.records, self.scope, memory_id)
            wanted = make_filter(where, kind=kind, tags=tags, after=after, before=before)
            request = Request(
                query, k, wanted, as_of, minimum, check_include(include), None, recipe_named(recipe), asked_at
            )
            found = why_not(self._parts.seeker, self.scope, memory, request)
        self._note("search", {"k": k, "why_not": memory.id, "length": len(query)}, [memory.id])
        return found

    def get(self, memory_id: MemoryId) -> Memory:
        """Return one memory, by its id or by the caller's own key for it."""
        with self._noting_failure("read", memory_id):
            memory = held(self._parts.records, self.scope, memory_id)
        self._note("read", {"memory": memory.id}, [memory.id], memory_id=memory.id)
        return memory

    def list(
        self,
        *,
        kind: Words = None,
        tags: Words = None,
        where: Mapping[str, Any] | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
        oldest_first: bool = False,
    ) -> Listing:
        """Memories by when they were made, the newest first."""
        with self._noting_failure("read"):
            wanted = make_filter(where, kind=kind, tags=tags, after=after, before=before)
            found = listing(
                self._parts.records, self.scope, wanted, limit=limit, cursor=cursor, oldest_first=oldest_first
            )
        self._note("read", {"listed": len(found.memories)})
        return found

    def history(self, memory_id: MemoryId) -> Sequence[Revision]:
        """Return what a memory said before each revision, oldest first."""
        with self._noting_failure("read", memory_id):
            memory = held(self._parts.records, self.scope, memory_id)
        where = [Where("owner_kind", Op.EQ, "memory"), Where("owner_id", Op.EQ, memory.id)]
        self._note("read", {"memory": memory.id, "history": True}, memory_id=memory.id)
        return self._parts.records.scan(Revision, self.scope.organization, where, order="revision")

    def relations(
        self, memory_id: MemoryId, *, depth: WalkDepth = 1, relationship_type: str | None = None
    ) -> Sequence[Related]:
        """Return the memories that relationships lead to from this one, nearest first."""
        with self._noting_failure("read", memory_id):
            found = relate.relations(
                self._parts.records, self.scope, memory_id, depth=depth, relationship_type=relationship_type
            )
        self._note("read", {"related": len(found)}, [one.memory.id for one in found])
        return found

    def tags(self) -> dict[str, int]:
        """How many memories carry each tag."""
        counts = relate.tag_counts(self._parts.records, self.scope)
        self._note("read", {"tags": len(counts)})
        return counts

    def tags_of(self, memory_ids: Sequence[MemoryId]) -> dict[str, tuple[str, ...]]:
        """Return the tags of those of these memories that have any."""
        own = self._parts.records.get(Memory, self.scope.organization, memory_ids)
        inside = [name for name, memory in own.items() if self.scope.covers(memory)]
        self._note("read", {"tagged": len(inside)})
        return tags_of(self._parts.records, self.scope.organization, inside)

    def log(
        self,
        *,
        operation: str | None = None,
        memory_id: MemoryId | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: PageSize = 100,
    ) -> Sequence[AccessLog]:
        """Return lines of the access log about this scope, newest first; pass `before` for older ones."""
        self._parts.access.flush()
        return read_log(self._parts.records, self.scope, limit, operation, memory_id, after, before)

    def _note(
        self, operation: str, request: dict[str, Any], read: Sequence[str] = (), memory_id: str | None = None
    ) -> None:
        self._parts.access.note(Act(self.scope, operation, clock.now(), request, memory_id), read)

    def _note_failure(self, operation: str, subject: str | None, error: EverholdError) -> None:
        request = {"memory": subject} if isinstance(subject, str) and is_id(subject) else {}
        self._parts.access.note(Act(self.scope, operation, clock.now(), request, error=type(error).__name__))

    def _noting_failure(self, operation: str, subject: str | None = None) -> "_Noting":
        """A line for what did not work, too."""
        return _Noting(self, operation, subject)


class _Noting:
    """Adds a line to the access log if what it surrounds fails."""

    __slots__ = ("_operation", "_subject", "_view")

    def __init__(self, view: View, operation: str, subject: str | None) -> None:
        self._view, self._operation, self._subject = view, operation, subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, EverholdError):
            self._view._note_failure(self._operation, self._subject, error)
