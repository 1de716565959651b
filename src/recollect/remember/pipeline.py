"""One write, from a sentence to a commit.

    draft → the rows of the scope → duplicates → chunks and vectors → one commit

The memory, its chunks, its tags, its line in the access log and its line in the feed are one commit: either all of
it is stored, durably, or none. A duplicate of what is there reinforces that instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect import clock
from recollect.errors import AlreadyExists, BrokenReference, IdempotencyMismatch, NotFound
from recollect.model import Chunk, Memory, Scope
from recollect.model.access import access_line
from recollect.model.announcement import announcement
from recollect.model.housekeeping import Outbox
from recollect.ports.records import Records
from recollect.remember.chunks import Chunking, chunks_of
from recollect.remember.draft import Draft, content_hash, draft, tag_row
from recollect.remember.scope_rows import ScopeRows
from recollect.schema.operations import Ensure, Increment, Op, Operation, Patch, Put, Where

BATCH = 2048
_TRIES = 8


@dataclass(frozen=True)
class Keeper:
    """What keeping a memory needs."""

    records: Records
    chunking: Chunking
    scope_rows: ScopeRows
    text_bytes: int
    interface: str | None = None


def remember(keeper: Keeper, scope: Scope, items: Sequence[str | Mapping[str, Any]]) -> list[Memory]:
    """Keeps up to BATCH memories in one commit and returns each as it is now stored."""
    now = clock.now()
    drafts = [draft(scope, item, now, keeper.text_bytes) for item in items]
    chunks: dict[str, list[Chunk]] = {}
    for _ in range(_TRIES):
        known = known_twins(keeper.records, scope, drafts)
        fresh = [one.memory for one in drafts if one.memory.id not in known]
        lacking = [memory for memory in fresh if memory.id not in chunks]
        chunks.update(zip((memory.id for memory in lacking), chunks_of(lacking, keeper.chunking), strict=True))
        try:
            keeper.records.commit(_operations(keeper, scope, drafts, known, chunks, now))
        except AlreadyExists as error:
            if not _may_pass(error):
                raise
            continue  # somebody else was quicker with the same words or the same key: look again
        except BrokenReference:
            keeper.scope_rows.doubt()
            continue
        keeper.scope_rows.learn(scope)
        return _stored(keeper.records, scope, drafts, known)
    raise NotFound(f"the rows of scope {scope} keep vanishing while it is written to; check who deletes them")


def _may_pass(error: AlreadyExists) -> bool:
    return error.rule in ("hash", "idempotency_key")


def known_twins(records: Records, scope: Scope, drafts: Sequence[Draft]) -> dict[str, str]:
    """For each draft that is already kept, by its id: the id of the memory that is."""
    known = _by_idempotency_key(records, scope, drafts)
    hashes = {one.memory.hash: one.memory.id for one in reversed(drafts) if one.memory.hash is not None}
    held: dict[bytes, str] = {}
    if hashes:
        where = [Where("hash", Op.EQ, next(iter(hashes))) if len(hashes) == 1 else Where("hash", Op.IN, list(hashes))]
        held = dict(records.columns(Memory, scope.organization, ("hash", "id"), where))
    for one in drafts:
        if one.memory.hash is None or one.memory.id in known:
            continue
        twin = held.get(one.memory.hash) or hashes[one.memory.hash]
        if twin != one.memory.id:
            known[one.memory.id] = twin
    return known


def _by_idempotency_key(records: Records, scope: Scope, drafts: Sequence[Draft]) -> dict[str, str]:
    keys = {one.idempotency_key: one for one in drafts if one.idempotency_key is not None}
    if not keys:
        return {}
    known = {}
    where = [Where("idempotency_key", Op.IN, list(keys))]
    for line in records.scan(Outbox, scope.organization, where):
        one = keys[str(line.idempotency_key)]
        if line.digest != content_hash(one.memory):
            raise IdempotencyMismatch(
                f"idempotency key {line.idempotency_key!r} was used for something else; use a new key for a new memory"
            )
        known[one.memory.id] = line.entity_id
    return known


def _operations(
    keeper: Keeper,
    scope: Scope,
    drafts: Sequence[Draft],
    known: Mapping[str, str],
    chunks: Mapping[str, list[Chunk]],
    now: datetime,
) -> list[Operation]:
    operations = keeper.scope_rows.missing(scope, now)
    for one in drafts:
        if one.memory.id in known:
            operations += _reinforce(keeper, scope, one, known[one.memory.id], now)
        else:
            united = one._replace(tags=_united_tags(one, drafts, known)) if known else one
            operations += additions(keeper, scope, united, chunks[one.memory.id], now)
    return operations


def _united_tags(first: Draft, drafts: Sequence[Draft], known: Mapping[str, str]) -> tuple[str, ...]:
    """The tags of a draft and of its twins in the same batch."""
    twins = [one for one in drafts if known.get(one.memory.id) == first.memory.id]
    return tuple(dict.fromkeys(tag for one in (first, *twins) for tag in one.tags))


def additions(keeper: Keeper, scope: Scope, one: Draft, chunks: Sequence[Chunk], now: datetime) -> list[Operation]:
    memory = one.memory
    request = {"memory": memory.id, "kind": memory.kind}
    line = access_line(scope, "create", now, request, memory_id=memory.id, interface=keeper.interface)
    return [
        Put(memory),
        *map(Put, chunks),
        *[Put(tag_row(memory, tag, now)) for tag in one.tags],
        Put(line),
        Put(_announced(memory, one)),
    ]


def _announced(memory: Memory, one: Draft) -> Outbox:
    key = one.idempotency_key
    return announcement(memory, idempotency_key=key, digest=None if key is None else content_hash(one.memory))


def _reinforce(keeper: Keeper, scope: Scope, one: Draft, memory_id: str, now: datetime) -> list[Operation]:
    """Saying something again makes it a little more present, and never less sure or less important."""
    key = (scope.organization, memory_id)
    held = keeper.records.get(Memory, scope.organization, [memory_id]).get(memory_id)
    if held is None:  # its twin is in this very batch, or a retry of a write whose memory is gone
        return []
    if one.idempotency_key is not None and _is_retry(keeper.records, scope, one.idempotency_key):
        return []
    operations: list[Operation] = [
        Increment(Memory, key, {"access_count": 1}, {"last_accessed": now}),
        *[Ensure(tag_row(held, tag, now)) for tag in one.tags],
    ]
    more = {
        name: one.memory.__dict__[name]
        for name in ("importance", "confidence")
        if one.memory.__dict__[name] > held.__dict__[name]
    }
    if more:
        operations.append(Patch(Memory, key, {**more, "updated_at": now}))
    request = {"memory": memory_id, "reinforced": True}
    line = access_line(scope, "update", now, request, memory_id=memory_id, interface=keeper.interface)
    return [*operations, Put(line), Put(_announced(held, one))]


def _is_retry(records: Records, scope: Scope, idempotency_key: str) -> bool:
    return records.count(Outbox, scope.organization, [Where("idempotency_key", Op.EQ, idempotency_key)]) > 0


def _stored(records: Records, scope: Scope, drafts: Sequence[Draft], known: Mapping[str, str]) -> list[Memory]:
    """The memories as they are now; those just added need not be read back."""
    added = {one.memory.id: one.memory for one in drafts if one.memory.id not in known}
    elsewhere = [memory_id for memory_id in set(known.values()) if memory_id not in added]
    held = records.get(Memory, scope.organization, elsewhere, deleted=True) if elsewhere else {}
    found = {**held, **added}
    names = [known.get(one.memory.id, one.memory.id) for one in drafts]
    gone = [name for name in names if name not in found]
    if gone:
        raise NotFound(f"memory {gone[0]!r} was kept under this idempotency key and purged since; use a new key")
    return [found[name] for name in names]
