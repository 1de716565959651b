"""Store memories: one write, from a sentence to a commit.

    draft → statement → duplicates → replaced memories → chunks and vectors → one commit

The memory, its chunks, its tags, its line in the access log and its line in the feed are one commit: either all of
them are stored, durably, or none. The same commit adds the facts that a message states and ends the memories that a new
statement replaces. A duplicate of a stored memory reinforces that memory and adds no row.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from everhold import clock
from everhold.errors import AlreadyExists, BrokenReference, NotFound, StaleVersion
from everhold.model import Change, Chunk, Memory, Scope, Session
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.change_feed import Outbox
from everhold.ports.records import Records
from everhold.remember.chunks import NO_CALLER_VECTORS, CallerVectors, assign_to_models, make_chunks
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import Draft, compute_content_hash, make_draft, make_tag
from everhold.remember.duplicates import Duplicates, find_duplicates, release_hashes
from everhold.remember.journal import make_change
from everhold.remember.link import make_relationship
from everhold.remember.reading import read_drafts
from everhold.remember.resolve import WritePlan, find_start, plan_write
from everhold.remember.supersession import make_supersession
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import get_table
from everhold.schema.operations import Ensure, Increment, Operation, Patch, Put

# The maximum number of memories in one call of `remember`.
BATCH = 2048
# The maximum number of repeating messages in a memory's provenance. Without it, each repetition would enlarge the row.
MAX_REPETITIONS = 200

# Fewer attempts than CONFLICTS has, because each of them plans the whole write again.
_RETRIES = replace(CONFLICTS, attempts=8)
_SESSIONS = get_table(Session).name

# Makes further operations for the commit of a write.
MakeOperations = Callable[[], Sequence[Operation]]


def remember(
    deps: WriteDeps,
    scope: Scope,
    items: Sequence[str | Mapping[str, Any]],
    *,
    cycle_id: str | None = None,
    make_further: MakeOperations = tuple,
) -> list[Memory]:
    """Store up to BATCH memories in one commit and return each as it is stored now.

    `cycle_id` is the cycle of a run that they belong to. `make_further` is passed to `store`.
    """
    now = clock.now()
    all_drafts = [make_draft(scope, item, now, deps.text_bytes, cycle_id) for item in items]
    unique_drafts = all_drafts if len(all_drafts) == 1 else _drop_repeats(all_drafts)
    vectors = {draft.memory.id: assign_to_models(draft.vectors, deps.chunking) for draft in all_drafts if draft.vectors}
    stored = store(deps, scope, read_drafts(unique_drafts, deps.reading), now, vectors, make_further)
    if len(unique_drafts) == len(all_drafts):
        return stored
    memories_by_id = {draft.memory.id: memory for draft, memory in zip(unique_drafts, stored, strict=True)}
    return [memories_by_id[draft.memory.id] for draft in all_drafts]


def store(
    deps: WriteDeps,
    scope: Scope,
    drafts: Sequence[Draft],
    now: datetime,
    vectors: Mapping[str, CallerVectors] = NO_CALLER_VECTORS,
    make_further: MakeOperations = tuple,
) -> list[Memory]:
    """Store drafts in one commit and return their memories as they are stored now, without the facts read from them.

    `make_further` returns further operations for the commit. It is called at every attempt, so that it can read again
    what its operations depend on if another writer was faster.
    """
    chunks: dict[str, list[Chunk]] = {}  # shared by all attempts, so that no text is embedded twice

    def commit(duplicates: Duplicates) -> list[Memory]:
        plan = plan_write(deps.records, scope, drafts, duplicates, deps.reading, now)
        _add_chunks(deps, plan, chunks, vectors)
        further = make_further()
        _commit(deps, _make_operations(deps, scope, plan, chunks, now, further), further)
        deps.scope_rows.confirm(scope)
        return _read_stored(deps.records, scope, plan)

    def attempt(number: int) -> list[Memory]:
        has_searched = number > 0
        if not has_searched and len(drafts) == 1:
            # A single text is rarely a duplicate, so it is first committed without a search for duplicates. If it is
            # one, the commit violates a unique rule of the store, and the search follows.
            with suppress(AlreadyExists):
                return commit(Duplicates({}, ()))
            has_searched = True
        try:
            return commit(find_duplicates(deps.records, scope, drafts, now))
        except AlreadyExists as error:
            # The rules named here are violated if another writer was faster; the next attempt finds what that writer
            # stored. Any other rule is violated by an id or a key that the caller chose.
            if has_searched and error.table != _SESSIONS and error.rule not in ("hash", "idempotency_key"):
                raise _explain_taken(error, [draft for draft in drafts if draft.source_id is None]) from None
            raise TryAgain("another writer stored the same text, key or session") from error

    return retry("store memories", attempt, _RETRIES, give_up=partial(_explain_failure, scope))


def _commit(deps: WriteDeps, operations: Sequence[Operation], further: Sequence[Operation]) -> None:
    """Commit a write; raise TryAgain if another writer changed what it depends on."""
    try:
        deps.records.commit(operations)
    except AlreadyExists as error:
        if error.table in {get_table(type(operation.row)).name for operation in further if isinstance(operation, Put)}:
            raise TryAgain("another writer was faster") from error
        raise
    except BrokenReference as error:
        deps.scope_rows.invalidate()  # another process has deleted a row of the scope since it was confirmed
        raise TryAgain("rows of the scope are missing") from error
    except StaleVersion as error:
        raise TryAgain("a row that is changed was changed by another writer") from error


def _explain_failure(scope: Scope, error: Exception) -> Exception:
    """Return the error for drafts that could not be stored after all attempts."""
    if isinstance(error, StaleVersion):
        return error
    return NotFound(f"the rows of scope {scope} keep vanishing while it is written to", remedy="check who deletes them")


def _drop_repeats(drafts: Sequence[Draft]) -> list[Draft]:
    """Merge drafts with the same id, idempotency key and content into the first of them, with the tags of all.

    Raise AlreadyExists if two different memories have the same id.
    """
    if len({draft.memory.id for draft in drafts}) == len(drafts):
        return list(drafts)
    drafts_by_id: dict[str, Draft] = {}
    for draft in drafts:
        first_draft = drafts_by_id.setdefault(draft.memory.id, draft)
        if _identify(first_draft) != _identify(draft):
            raise AlreadyExists(
                f"two different memories of one call have the id {draft.memory.id!r}",
                value=draft.memory.id,
                remedy="choose another id for one of them",
                table=get_table(Memory).name,
                rule="key",
            )
        drafts_by_id[draft.memory.id] = first_draft._replace(
            tags=tuple(dict.fromkeys((*first_draft.tags, *draft.tags)))
        )
    return list(drafts_by_id.values())


def _identify(draft: Draft) -> tuple[str | None, bytes]:
    return draft.idempotency_key, compute_content_hash(draft.memory)


def _add_chunks(
    deps: WriteDeps, plan: WritePlan, chunks: dict[str, list[Chunk]], vectors: Mapping[str, CallerVectors]
) -> None:
    """Add the chunks of the new memories that have none yet."""
    added_memories = [draft.memory for draft in plan.drafts if draft.memory.id not in plan.duplicate_ids]
    without_chunks = [memory for memory in added_memories if memory.id not in chunks]
    chunk_lists = make_chunks(without_chunks, deps.chunking, vectors)
    chunks.update(zip((memory.id for memory in without_chunks), chunk_lists, strict=True))


def _explain_taken(error: AlreadyExists, drafts: Sequence[Draft]) -> AlreadyExists:
    """Return the error for an id or a key of the caller's own that another memory has."""
    taken_names = [draft.memory.key if error.rule == "own_key" else draft.memory.id for draft in drafts]
    conflicting = (
        f"{'key' if error.rule == 'own_key' else 'id'} {taken_names[0]!r}"
        if len(taken_names) == 1
        else f"one of {len(taken_names)} ids or keys"
    )
    fact = f"{conflicting} belongs to a memory that says something else"
    return AlreadyExists(fact, remedy="revise that one, or choose another", table=error.table, rule=error.rule)


def _make_operations(
    deps: WriteDeps,
    scope: Scope,
    plan: WritePlan,
    chunks: Mapping[str, list[Chunk]],
    now: datetime,
    further: Sequence[Operation],
) -> list[Operation]:
    # A store applies operations in order: before the memories are added, their hashes must be released and the rows
    # that they refer to must exist.
    operations = [*release_hashes(scope, plan.ended_ids), *deps.scope_rows.make_missing_rows(scope, now), *further]
    drafts, duplicate_ids = plan.drafts, plan.duplicate_ids
    repeats_by_memory: dict[str, list[Draft]] = defaultdict(list)
    for draft in drafts:
        if draft.memory.id in plan.retried_ids:
            continue
        if draft.memory.id in duplicate_ids:
            repeats_by_memory[duplicate_ids[draft.memory.id]].append(draft)
            continue
        draft_with_tags = draft._replace(tags=_merge_tags(draft, drafts, duplicate_ids)) if duplicate_ids else draft
        operations += make_additions(deps, scope, draft_with_tags, chunks[draft.memory.id], now)
        source_id = draft.source_id
        if source_id is None and draft.memory.provenance:
            source_id = _find_named_source(deps.records, scope, draft.memory)
        if source_id is not None:
            operations.append(Put(make_relationship(scope, draft.memory.id, source_id, "derived_from", now)))
    for memory_id, repeated_drafts in repeats_by_memory.items():
        operations += _reinforce(deps, scope, plan, repeated_drafts, memory_id, now)
    if duplicate_ids:
        operations += _link_restated_facts(deps.records, scope, plan, now)
    return operations + _make_supersessions(deps, scope, plan, now)


def _find_named_source(records: Records, scope: Scope, memory: Memory) -> str | None:
    """Return the id of the memory that a caller's provenance names as its source, if it has the same user."""
    source_id = memory.source_id
    if source_id is None:
        return None
    source = records.get(Memory, scope.organization, [source_id]).get(source_id)
    return source_id if source is not None and source.user_id == memory.user_id else None


def _link_restated_facts(records: Records, scope: Scope, plan: WritePlan, now: datetime) -> list[Operation]:
    """Return operations that link stored facts to further messages that state them.

    With the link, the fact stays when only one of its sources is purged.
    """
    links = {
        (plan.duplicate_ids[draft.memory.id], draft.source_id)
        for draft in plan.drafts
        if draft.memory.id in plan.duplicate_ids
        and draft.source_id is not None
        and draft.source_id not in plan.duplicate_ids
    }
    if not links:
        return []
    added_memories = {draft.memory.id: draft.memory for draft in plan.drafts}
    stored_ids = sorted({known_id for known_id, _ in links if known_id not in added_memories})
    memories = {**added_memories, **(records.get(Memory, scope.organization, stored_ids) if stored_ids else {})}
    return [
        Put(make_relationship(scope, known_id, source_id, "derived_from", now))
        for known_id, source_id in sorted(links)
        if known_id in memories and memories[known_id].source_id not in (None, source_id)
    ]


def _make_supersessions(deps: WriteDeps, scope: Scope, plan: WritePlan, now: datetime) -> list[Operation]:
    """Return the operations by which the new memories of a write supersede earlier ones."""
    ids_to_add = (draft.memory.id for draft in plan.drafts if draft.memory.id not in plan.duplicate_ids)
    added_ids = set(ids_to_add) if plan.replacements else ()
    operations: list[Operation] = []
    for old_memories, successor, attribute in plan.replacements:
        operations += make_supersession(
            scope,
            old_memories,
            successor,
            now,
            begins=find_start(successor),
            successor_is_new=True,
            reason=f"replaces: {attribute}",
            interface=deps.interface,
            run_id=deps.run_id,
            added_ids=added_ids,
        )
    return operations


def _merge_tags(first: Draft, drafts: Sequence[Draft], duplicate_ids: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tags of a draft and of its duplicates in the same batch."""
    repeats = [draft for draft in drafts if duplicate_ids.get(draft.memory.id) == first.memory.id]
    return tuple(dict.fromkeys(tag for draft in (first, *repeats) for tag in draft.tags))


def make_additions(
    deps: WriteDeps, scope: Scope, draft: Draft, chunks: Sequence[Chunk], now: datetime
) -> list[Operation]:
    """Return the operations that add a memory with its chunks, tags, access log line and feed line."""
    memory = draft.memory
    request = {"memory": memory.id, "kind": memory.kind}
    line = make_access_line(scope, "create", now, request, memory_id=memory.id, interface=deps.interface)
    journal_operations: list[Operation] = []
    if deps.run_id is not None:
        entry = make_change(scope, "remember", [memory.id], now, None, before={}, after={}, run_id=deps.run_id)
        journal_operations.append(Put(entry))
    return [
        Put(memory),
        *map(Put, chunks),
        *[Put(make_tag(memory, tag, now)) for tag in draft.tags],
        Put(line),
        Put(_make_outbox_line(memory, draft)),
        *journal_operations,
    ]


def _make_outbox_line(memory: Memory, draft: Draft) -> Outbox:
    key = draft.idempotency_key
    return make_announcement(
        memory, idempotency_key=key, digest=None if key is None else compute_content_hash(draft.memory)
    )


def _reinforce(
    deps: WriteDeps, scope: Scope, plan: WritePlan, repeated_drafts: Sequence[Draft], memory_id: str, now: datetime
) -> list[Operation]:
    """Return the operations that count accesses to a repeated memory, add tags and raise importance and confidence."""
    key = (scope.organization, memory_id)
    stored = deps.records.get(Memory, scope.organization, [memory_id]).get(memory_id)
    if stored is None:  # the repeated memory is added by this batch and is not stored yet
        return []
    operations: list[Operation] = [
        Increment(Memory, key, {"access_count": len(repeated_drafts)}, {"last_accessed": now}),
        *[Ensure(make_tag(stored, tag, now)) for draft in repeated_drafts for tag in draft.tags],
    ]
    highest = {
        name: max(draft.memory.__dict__[name] for draft in repeated_drafts) for name in ("importance", "confidence")
    }
    changes: dict[str, Any] = {name: value for name, value in highest.items() if value > stored.__dict__[name]}
    provenance = _note_repetition(stored, repeated_drafts)
    if provenance != stored.provenance:
        changes["provenance"] = provenance
    is_replaced = any(old.id == memory_id for replacement in plan.replacements for old in replacement.old_memories)
    # The supersession of a replaced memory checks its version; a patch before it would make that version stale.
    if changes and not is_replaced:
        operations.append(Patch(Memory, key, {**changes, "updated_at": now}, version=stored.version))
    if deps.run_id is not None:
        operations.append(Put(_journal_reinforcement(scope, stored, len(repeated_drafts), changes, now, deps.run_id)))
    request = {"memory": memory_id, "reinforced": True}
    for draft in repeated_drafts:
        line = make_access_line(scope, "update", now, request, memory_id=memory_id, interface=deps.interface)
        operations += [Put(line), Put(_make_outbox_line(stored, draft))]
    return operations


def _journal_reinforcement(
    scope: Scope, stored: Memory, count: int, changes: Mapping[str, Any], now: datetime, run_id: str
) -> Change:
    after = {**changes, "access_count": stored.access_count + count, "last_accessed": now.isoformat()}
    before = stored.model_dump(mode="json", include=set(after))
    return make_change(scope, "reinforce", [stored.id], now, None, before=before, after=after, run_id=run_id)


def _note_repetition(stored: Memory, repeated_drafts: Sequence[Draft]) -> dict[str, Any]:
    """Return the provenance of a repeated memory, with the note that it has more than one source.

    If messages repeat it, their ids are added, so that the memory is purged when all of its messages are purged. A
    repetition from elsewhere sets "restated", so that the memory stays when its first source is purged.
    """
    repeating_message_ids = [
        draft.memory.message_id for draft in repeated_drafts if draft.memory.message_id is not None
    ]
    if stored.message_id is not None and len(repeating_message_ids) == len(repeated_drafts):
        further_ids = [
            message_id
            for message_id in dict.fromkeys((*stored.message_ids, *repeating_message_ids))
            if message_id != stored.message_id
        ]
        return {**stored.provenance, "messages": further_ids[-MAX_REPETITIONS:]} if further_ids else stored.provenance
    has_other_source = stored.message_id is not None or any(draft.source_id is None for draft in repeated_drafts)
    rests_on_message = stored.source_id is not None or stored.message_id is not None
    return {**stored.provenance, "restated": True} if has_other_source and rests_on_message else stored.provenance


def _read_stored(records: Records, scope: Scope, plan: WritePlan) -> list[Memory]:
    """Return the caller's memories as they are stored now; those just added are not read back."""
    duplicate_ids = plan.duplicate_ids
    added_memories = {draft.memory.id: draft.memory for draft in plan.drafts if draft.memory.id not in duplicate_ids}
    other_ids = [memory_id for memory_id in set(duplicate_ids.values()) if memory_id not in added_memories]
    stored = records.get(Memory, scope.organization, other_ids, deleted=True) if other_ids else {}
    memories_by_id = {**stored, **added_memories}
    own_ids = (draft.memory.id for draft in plan.drafts if draft.source_id is None)
    stored_ids = [duplicate_ids.get(memory_id, memory_id) for memory_id in own_ids]
    missing_ids = [memory_id for memory_id in stored_ids if memory_id not in memories_by_id]
    if missing_ids:
        raise NotFound(
            f"memory {missing_ids[0]!r} was stored with this idempotency key and has been purged",
            value=missing_ids[0],
            remedy="use a new key",
        )
    return [memories_by_id[memory_id] for memory_id in stored_ids]
