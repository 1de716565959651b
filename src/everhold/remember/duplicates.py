"""Memories that are already kept, and those that say the same but hold no longer."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from everhold.errors import IdempotencyMismatch
from everhold.model import Memory, Scope
from everhold.model.housekeeping import Outbox
from everhold.ports.records import Records
from everhold.remember.draft import Draft, compute_content_hash
from everhold.schema.operations import Op, Operation, Patch, Where

ENDS = ("superseded_at", "expires_at", "valid_to")


class Duplicates(NamedTuple):
    """Which drafts are stored already.

    `known` maps a draft's id to the id of the memory that says the same. `ended` are memories that say the same but are
    superseded, expired or no longer true, so that the draft says something new. `retries` are the drafts whose
    idempotency key a committed write has used: they must change nothing.
    """

    known: dict[str, str]
    ended: tuple[str, ...]
    retries: frozenset[str] = frozenset()


def find_duplicates(records: Records, scope: Scope, drafts: Sequence[Draft], now: datetime) -> Duplicates:
    known, retries = _find_by_idempotency_key(records, scope, drafts)
    hashed = [
        one.memory
        for one in drafts
        if one.memory.hash is not None and one.memory.id not in known and one.source_id not in known
    ]
    first = {memory.hash: memory for memory in reversed(hashed)}
    held: dict[bytes | None, str] = {}
    ended = []
    if first:
        where = [Where("hash", Op.EQ, next(iter(first))) if len(first) == 1 else Where("hash", Op.IN, list(first))]
        for digest, memory_id, *ends in records.columns(Memory, scope.organization, ("hash", "id", *ENDS), where):
            if has_past(ends, now) and not has_ended(first[digest], now):
                ended.append(memory_id)
            else:
                held[digest] = memory_id
    for memory in hashed:
        twin = held.get(memory.hash, first[memory.hash].id)
        if memory.hash in held or twin != memory.id:
            known[memory.id] = twin
    return Duplicates(known, tuple(ended), retries)


def has_ended(memory: Memory, now: datetime) -> bool:
    return has_past([getattr(memory, name) for name in ENDS], now)


def has_past(ends: Iterable[Any], now: datetime) -> bool:
    return any(end is not None and end <= now for end in ends)


def release_hashes(scope: Scope, ended: Iterable[str]) -> list[Operation]:
    """Lets what these memories said be said anew."""
    return [Patch(Memory, (scope.organization, memory_id), {"hash": None}) for memory_id in ended]


def _find_by_idempotency_key(
    records: Records, scope: Scope, drafts: Sequence[Draft]
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the drafts whose key was used before, each with the memory it was used for, and which are retries.

    A key belongs to one user, or to writes without a user. All drafts of a write have the same user.
    """
    keyed = [one for one in drafts if one.idempotency_key is not None]
    if not keyed:
        return {}, frozenset()
    where = [
        Where("user_id", Op.EQ, keyed[0].memory.user_id or ""),
        Where("idempotency_key", Op.IN, list({one.idempotency_key for one in keyed})),
    ]
    used: dict[str | None, tuple[bytes | None, str]] = {
        line.idempotency_key: (line.digest, line.entity_id) for line in records.scan(Outbox, scope.organization, where)
    }
    retries = frozenset(one.memory.id for one in keyed if one.idempotency_key in used)
    known = {}
    for one in keyed:
        digest = compute_content_hash(one.memory)
        first_digest, memory_id = used.setdefault(one.idempotency_key, (digest, one.memory.id))
        if first_digest is not None and first_digest != digest:  # a purge removes the digest
            raise IdempotencyMismatch(
                f"idempotency key {one.idempotency_key!r} was used for something else",
                remedy="use a new key for a new memory",
            )
        if memory_id != one.memory.id or one.memory.id in retries:  # a retry may have the caller's own id
            known[one.memory.id] = memory_id
    return known, retries
