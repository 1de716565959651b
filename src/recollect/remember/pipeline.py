"""One write, from a sentence to a commit.

    draft → the rows of the scope → duplicates → chunks and vectors → one commit

The memory, its chunks, its tags, its line in the access log and its line in the feed are one commit: either all of
it is stored, durably, or none. A duplicate of what is there reinforces that instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

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
_ENDS = ("superseded_at", "expires_at", "valid_to")


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
    for attempt in range(_TRIES):
        # one sentence is rarely a duplicate: the store's own rule says so if it is, and then we look
        known, ended = known_twins(keeper.records, scope, drafts, now) if attempt or len(drafts) > 1 else Twins({}, ())
        fresh = [one.memory for one in drafts if one.memory.id not in known]
        lacking = [memory for memory in fresh if memory.id not in chunks]
        chunks.update(zip((memory.id for memory in lacking), chunks_of(lacking, keeper.chunking), strict=True))
        try:
            keeper.records.commit([*released(scope, ended), *_operations(keeper, scope, drafts, known, chunks, now)])
        except AlreadyExists as error:
            if attempt and error.rule not in ("hash", "idempotency_key"):
                raise _taken(error, drafts) from None
            continue  # the same words or the same key are there already, or came just now: look again
        except BrokenReference:
            keeper.scope_rows.doubt()
            continue
        keeper.scope_rows.learn(scope)
        return _stored(keeper.records, scope, drafts, known)
    raise NotFound(f"the rows of scope {scope} keep vanishing while it is written to; check who deletes them")


def _taken(error: AlreadyExists, drafts: Sequence[Draft]) -> AlreadyExists:
    """An id or a key of the caller's own that another memory has."""
    own = [one.memory.key if error.rule == "own_key" else one.memory.id for one in drafts]
    named = (
        f"{'key' if error.rule == 'own_key' else 'id'} {own[0]!r}"
        if len(own) == 1
        else f"one of {len(own)} ids or keys"
    )
    message = f"{named} belongs to a memory that says something else; revise that one, or choose another"
    return AlreadyExists(message, table=error.table, rule=error.rule)


class Twins(NamedTuple):
    """For each draft that is already kept, by its id: the id of the memory that is. And the memories that say the
    same but hold no longer: superseded, expired or no longer true, so that saying it again says something new."""

    known: dict[str, str]
    ended: tuple[str, ...]


def known_twins(records: Records, scope: Scope, drafts: Sequence[Draft], now: datetime) -> Twins:
    known = _by_idempotency_key(records, scope, drafts)
    hashed = [one.memory for one in drafts if one.memory.hash is not None and one.memory.id not in known]
    first = {memory.hash: memory for memory in reversed(hashed)}
    held: dict[bytes | None, str] = {}
    ended = []
    if first:
        where = [Where("hash", Op.EQ, next(iter(first))) if len(first) == 1 else Where("hash", Op.IN, list(first))]
        for digest, memory_id, *ends in records.columns(Memory, scope.organization, ("hash", "id", *_ENDS), where):
            if _has_ended(ends, now) and not _has_ended([getattr(first[digest], name) for name in _ENDS], now):
                ended.append(memory_id)
            else:
                held[digest] = memory_id
    for memory in hashed:
        twin = held.get(memory.hash, first[memory.hash].id)
        if memory.hash in held or twin != memory.id:
            known[memory.id] = twin
    return Twins(known, tuple(ended))


def _has_ended(ends: Iterable[datetime | None], now: datetime) -> bool:
    return any(end is not None and end <= now for end in ends)


def released(scope: Scope, ended: Iterable[str]) -> list[Operation]:
    """Lets what these memories said be said anew."""
    return [Patch(Memory, (scope.organization, memory_id), {"hash": None}) for memory_id in ended]


def _by_idempotency_key(records: Records, scope: Scope, drafts: Sequence[Draft]) -> dict[str, str]:
    keyed = [one for one in drafts if one.idempotency_key is not None]
    if not keyed:
        return {}
    where = [Where("idempotency_key", Op.IN, list({one.idempotency_key for one in keyed}))]
    used = {
        line.idempotency_key: (line.digest, line.entity_id) for line in records.scan(Outbox, scope.organization, where)
    }
    known = {}
    for one in keyed:
        digest = content_hash(one.memory)
        first_digest, memory_id = used.setdefault(one.idempotency_key, (digest, one.memory.id))
        if first_digest != digest:
            raise IdempotencyMismatch(
                f"idempotency key {one.idempotency_key!r} was used for something else; use a new key for a new memory"
            )
        if memory_id != one.memory.id:
            known[one.memory.id] = memory_id
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
