"""One write, from a sentence to a commit.

    draft → what it states → duplicates → what it replaces → chunks and vectors → one commit

The memory, its chunks, its tags, its line in the access log and its line in the feed are one commit: either all of
it is stored, durably, or none. So are the facts that a message tells, and the end of what a new statement replaces.
A duplicate of what is there reinforces that instead.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from everhold import clock
from everhold.errors import AlreadyExists, BrokenReference, NotFound, StaleVersion
from everhold.model import Chunk, Memory, Scope, Session
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.housekeeping import Outbox
from everhold.ports.records import Records
from everhold.remember.chunks import NO_CALLER_VECTORS, CallerVectors, Chunking, make_chunks, name_models
from everhold.remember.draft import Draft, compute_content_hash, make_draft, make_tag
from everhold.remember.duplicates import Duplicates, find_duplicates, release_hashes
from everhold.remember.link import make_relationship
from everhold.remember.reading import ReadingOptions, read_drafts
from everhold.remember.resolve import WritePlan, find_start, plan_write
from everhold.remember.scope_rows import ScopeRows
from everhold.remember.supersession import make_supersession
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import get_table
from everhold.schema.operations import Ensure, Increment, Operation, Patch, Put

BATCH = 2048
MOST_REPETITIONS = 200
"""How many messages a memory names that repeat it."""

_RETRIES = replace(CONFLICTS, attempts=8)
_SESSIONS = get_table(Session).name


@dataclass(frozen=True)
class WriteDeps:
    """What keeping a memory needs."""

    records: Records
    chunking: Chunking
    scope_rows: ScopeRows
    text_bytes: int
    interface: str = "library"
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    drop_cached_vectors: Callable[[], None] = lambda: None
    """Drops the cached vectors of texts that this process has embedded."""


def remember(deps: WriteDeps, scope: Scope, items: Sequence[str | Mapping[str, Any]]) -> list[Memory]:
    """Store up to BATCH memories in one commit and return each as it is now stored."""
    now = clock.now()
    every = [make_draft(scope, item, now, deps.text_bytes) for item in items]
    own = every if len(every) == 1 else _drop_repeats(every)
    vectors = {one.memory.id: name_models(one.vectors, deps.chunking) for one in every if one.vectors}
    stored = store(deps, scope, read_drafts(own, deps.reading), now, vectors)
    if len(own) == len(every):
        return stored
    by_id = {one.memory.id: memory for one, memory in zip(own, stored, strict=True)}
    return [by_id[one.memory.id] for one in every]


def store(
    deps: WriteDeps,
    scope: Scope,
    drafts: Sequence[Draft],
    now: datetime,
    vectors: Mapping[str, CallerVectors] = NO_CALLER_VECTORS,
) -> list[Memory]:
    """Store drafts in one commit and return each as it is now stored, without those drawn from other drafts."""
    chunks: dict[str, list[Chunk]] = {}

    def commit(twins: Duplicates) -> list[Memory]:
        settled = plan_write(deps.records, scope, drafts, twins, deps.reading, now)
        _add_chunks(deps, settled, chunks, vectors)
        try:
            deps.records.commit(_make_operations(deps, scope, settled, chunks, now))
        except BrokenReference as error:
            deps.scope_rows.invalidate()
            raise TryAgain("rows of the scope are missing") from error
        except StaleVersion as error:
            raise TryAgain("a memory that is replaced has changed") from error
        deps.scope_rows.confirm(scope)
        return _read_stored(deps.records, scope, settled)

    def attempt(number: int) -> list[Memory]:
        has_looked = number > 0
        if not has_looked and len(drafts) == 1:
            # A single text is rarely a duplicate. If it is, the store's unique rule refuses it: look for its twin then.
            with suppress(AlreadyExists):
                return commit(Duplicates({}, ()))
            has_looked = True
        try:
            return commit(find_duplicates(deps.records, scope, drafts, now))
        except AlreadyExists as error:
            if has_looked and error.table != _SESSIONS and error.rule not in ("hash", "idempotency_key"):
                raise _explain_taken(error, [one for one in drafts if one.source_id is None]) from None
            raise TryAgain("another writer stored the same text, key or session") from error

    return retry("store memories", attempt, _RETRIES, give_up=partial(_explain_failure, scope))


def _explain_failure(scope: Scope, error: Exception) -> Exception:
    """Return the error for drafts that could not be stored after all attempts."""
    if isinstance(error, StaleVersion):
        return error
    return NotFound(f"the rows of scope {scope} keep vanishing while it is written to", remedy="check who deletes them")


def _drop_repeats(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts without those that repeat an earlier one: the caller's own id, the key and the words are equal.

    AlreadyExists if two different memories have one id.
    """
    if len({one.memory.id for one in drafts}) == len(drafts):
        return list(drafts)
    by_id: dict[str, Draft] = {}
    for one in drafts:
        first = by_id.setdefault(one.memory.id, one)
        if _identify(first) != _identify(one):
            raise AlreadyExists(
                f"two different memories of one call have the id {one.memory.id!r}",
                value=one.memory.id,
                remedy="choose another id for one of them",
                table=get_table(Memory).name,
                rule="key",
            )
        by_id[one.memory.id] = first._replace(tags=tuple(dict.fromkeys((*first.tags, *one.tags))))
    return list(by_id.values())


def _identify(one: Draft) -> tuple[str | None, bytes]:
    return one.idempotency_key, compute_content_hash(one.memory)


def _add_chunks(
    deps: WriteDeps, settled: WritePlan, chunks: dict[str, list[Chunk]], vectors: Mapping[str, CallerVectors]
) -> None:
    """Add the chunks of what is new and has not been cut yet."""
    fresh = [one.memory for one in settled.drafts if one.memory.id not in settled.known]
    lacking = [memory for memory in fresh if memory.id not in chunks]
    rows = make_chunks(lacking, deps.chunking, vectors)
    chunks.update(zip((memory.id for memory in lacking), rows, strict=True))


def _explain_taken(error: AlreadyExists, drafts: Sequence[Draft]) -> AlreadyExists:
    """An id or a key of the caller's own that another memory has."""
    own = [one.memory.key if error.rule == "own_key" else one.memory.id for one in drafts]
    named = (
        f"{'key' if error.rule == 'own_key' else 'id'} {own[0]!r}"
        if len(own) == 1
        else f"one of {len(own)} ids or keys"
    )
    fact = f"{named} belongs to a memory that says something else"
    return AlreadyExists(fact, remedy="revise that one, or choose another", table=error.table, rule=error.rule)


def _make_operations(
    deps: WriteDeps, scope: Scope, settled: WritePlan, chunks: Mapping[str, list[Chunk]], now: datetime
) -> list[Operation]:
    operations = [*release_hashes(scope, settled.ended), *deps.scope_rows.make_missing_rows(scope, now)]
    drafts, known = settled.drafts, settled.known
    again: dict[str, list[Draft]] = defaultdict(list)
    for one in drafts:
        if one.memory.id in settled.retries:
            continue
        if one.memory.id in known:
            again[known[one.memory.id]].append(one)
            continue
        united = one._replace(tags=_unite_tags(one, drafts, known)) if known else one
        operations += make_additions(deps, scope, united, chunks[one.memory.id], now)
        source_id = one.source_id
        if source_id is None and one.memory.provenance:
            source_id = _find_named_source(deps.records, scope, one.memory)
        if source_id is not None:
            operations.append(Put(make_relationship(scope, one.memory.id, source_id, "derived_from", now)))
    for memory_id, repeated in again.items():
        operations += _reinforce(deps, scope, settled, repeated, memory_id, now)
    if known:
        operations += _link_restated_facts(deps.records, scope, settled, now)
    return operations + _make_supersessions(deps, scope, settled, now)


def _find_named_source(records: Records, scope: Scope, memory: Memory) -> str | None:
    """Return the memory that a caller's provenance names as the source, if the scope covers it."""
    named = memory.source_id
    if named is None:
        return None
    source = records.get(Memory, scope.organization, [named]).get(named)
    return named if source is not None and source.user_id == memory.user_id else None


def _link_restated_facts(records: Records, scope: Scope, settled: WritePlan, now: datetime) -> list[Operation]:
    """Return operations that link known facts to the messages that repeat them, so that they outlive the first."""
    links = {
        (settled.known[one.memory.id], one.source_id)
        for one in settled.drafts
        if one.memory.id in settled.known and one.source_id is not None and one.source_id not in settled.known
    }
    if not links:
        return []
    fresh = {one.memory.id: one.memory for one in settled.drafts}
    elsewhere = sorted({known_id for known_id, _ in links if known_id not in fresh})
    memories = {**fresh, **(records.get(Memory, scope.organization, elsewhere) if elsewhere else {})}
    return [
        Put(make_relationship(scope, known_id, source_id, "derived_from", now))
        for known_id, source_id in sorted(links)
        if known_id in memories and memories[known_id].source_id not in (None, source_id)
    ]


def _make_supersessions(deps: WriteDeps, scope: Scope, settled: WritePlan, now: datetime) -> list[Operation]:
    fresh = (one.memory.id for one in settled.drafts if one.memory.id not in settled.known)
    unwritten = set(fresh) if settled.replaced else ()
    operations: list[Operation] = []
    for olds, heir, attribute in settled.replaced:
        operations += make_supersession(
            scope,
            olds,
            heir,
            now,
            begins=find_start(heir),
            heir_is_new=True,
            reason=f"replaces: {attribute}",
            interface=deps.interface,
            unwritten=unwritten,
        )
    return operations


def _unite_tags(first: Draft, drafts: Sequence[Draft], known: Mapping[str, str]) -> tuple[str, ...]:
    """The tags of a draft and of its twins in the same batch."""
    twins = [one for one in drafts if known.get(one.memory.id) == first.memory.id]
    return tuple(dict.fromkeys(tag for one in (first, *twins) for tag in one.tags))


def make_additions(
    deps: WriteDeps, scope: Scope, one: Draft, chunks: Sequence[Chunk], now: datetime
) -> list[Operation]:
    memory = one.memory
    request = {"memory": memory.id, "kind": memory.kind}
    line = make_access_line(scope, "create", now, request, memory_id=memory.id, interface=deps.interface)
    return [
        Put(memory),
        *map(Put, chunks),
        *[Put(make_tag(memory, tag, now)) for tag in one.tags],
        Put(line),
        Put(_make_outbox_line(memory, one)),
    ]


def _make_outbox_line(memory: Memory, one: Draft) -> Outbox:
    key = one.idempotency_key
    return make_announcement(
        memory, idempotency_key=key, digest=None if key is None else compute_content_hash(one.memory)
    )


def _reinforce(
    deps: WriteDeps, scope: Scope, settled: WritePlan, repeated: Sequence[Draft], memory_id: str, now: datetime
) -> list[Operation]:
    """Saying something again makes it a little more present, and never less sure or less important."""
    key = (scope.organization, memory_id)
    held = deps.records.get(Memory, scope.organization, [memory_id]).get(memory_id)
    if held is None:  # its twin is in this very batch
        return []
    operations: list[Operation] = [
        Increment(Memory, key, {"access_count": len(repeated)}, {"last_accessed": now}),
        *[Ensure(make_tag(held, tag, now)) for one in repeated for tag in one.tags],
    ]
    most = {name: max(one.memory.__dict__[name] for one in repeated) for name in ("importance", "confidence")}
    more: dict[str, Any] = {name: value for name, value in most.items() if value > held.__dict__[name]}
    provenance = _note_repetition(held, repeated)
    if provenance != held.provenance:
        more["provenance"] = provenance
    is_replaced = any(old.id == memory_id for done in settled.replaced for old in done.olds)
    if more and not is_replaced:
        operations.append(Patch(Memory, key, {**more, "updated_at": now}, version=held.version))
    request = {"memory": memory_id, "reinforced": True}
    for one in repeated:
        line = make_access_line(scope, "update", now, request, memory_id=memory_id, interface=deps.interface)
        operations += [Put(line), Put(_make_outbox_line(held, one))]
    return operations


def _note_repetition(held: Memory, repeated: Sequence[Draft]) -> dict[str, Any]:
    """Return the provenance of a memory that is said again: it no longer rests on its first message alone.

    A repetition in another message of a session is noted by the id of that message, so that the memory goes when all
    of its messages are purged. A fact that a turn repeats is linked to the turn.
    """
    told_in = [one.memory.message_id for one in repeated if one.memory.message_id is not None]
    if held.message_id is not None and len(told_in) == len(repeated):
        others = [name for name in dict.fromkeys((*held.message_ids, *told_in)) if name != held.message_id]
        return {**held.provenance, "messages": others[-MOST_REPETITIONS:]} if others else held.provenance
    is_said_apart = held.message_id is not None or any(one.source_id is None for one in repeated)
    rests_on_message = held.source_id is not None or held.message_id is not None
    return {**held.provenance, "restated": True} if is_said_apart and rests_on_message else held.provenance


def _read_stored(records: Records, scope: Scope, settled: WritePlan) -> list[Memory]:
    """The memories asked for as they are now; those just added need not be read back."""
    known = settled.known
    added = {one.memory.id: one.memory for one in settled.drafts if one.memory.id not in known}
    elsewhere = [memory_id for memory_id in set(known.values()) if memory_id not in added]
    held = records.get(Memory, scope.organization, elsewhere, deleted=True) if elsewhere else {}
    found = {**held, **added}
    own = (one.memory.id for one in settled.drafts if one.source_id is None)
    names = [known.get(name, name) for name in own]
    gone = [name for name in names if name not in found]
    if gone:
        raise NotFound(
            f"memory {gone[0]!r} was kept under this idempotency key and purged since",
            value=gone[0],
            remedy="use a new key",
        )
    return [found[name] for name in names]
