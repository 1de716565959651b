"""Find the stored memories that have the same content as new drafts."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from everhold.errors import IdempotencyMismatch
from everhold.model import Memory, Scope
from everhold.model.change_feed import Outbox
from everhold.ports.records import Records
from everhold.remember.draft import Draft, compute_content_hash
from everhold.schema.operations import Op, Operation, Patch, Where

ENDS = ("superseded_at", "expires_at", "valid_to")


class Duplicates(NamedTuple):
    """The drafts of a write that are stored already.

    `duplicate_ids` maps a draft's id to the id of the memory with the same content. `ended_ids` are the ids of memories
    with the same content that are superseded, expired or no longer valid, so that the draft is new. `retried_ids` are
    the ids of the drafts whose idempotency key a committed write has used: they must change nothing.
    """

    duplicate_ids: dict[str, str]
    ended_ids: tuple[str, ...]
    retried_ids: frozenset[str] = frozenset()


def find_duplicates(records: Records, scope: Scope, drafts: Sequence[Draft], now: datetime) -> Duplicates:
    """Return the drafts that repeat a stored memory or each other, by idempotency key or by content hash."""
    duplicate_ids, retried_ids = _find_by_idempotency_key(records, scope, drafts)
    hashed_memories = [
        draft.memory
        for draft in drafts
        if draft.memory.hash is not None
        and draft.memory.id not in duplicate_ids
        and draft.source_id not in duplicate_ids
    ]
    # Reversed, so that the first draft of a hash is the one that stays in the dictionary.
    first_by_hash = {memory.hash: memory for memory in reversed(hashed_memories)}
    stored_ids: dict[bytes | None, str] = {}
    ended_ids = []
    if first_by_hash:
        where = [
            Where("hash", Op.EQ, next(iter(first_by_hash)))
            if len(first_by_hash) == 1
            else Where("hash", Op.IN, list(first_by_hash))
        ]
        for digest, memory_id, *ends in records.columns(Memory, scope.organization, ("hash", "id", *ENDS), where):
            if has_past(ends, now) and not has_ended(first_by_hash[digest], now):
                ended_ids.append(memory_id)
            else:
                stored_ids[digest] = memory_id
    for memory in hashed_memories:
        duplicate_id = stored_ids.get(memory.hash, first_by_hash[memory.hash].id)
        if memory.hash in stored_ids or duplicate_id != memory.id:
            duplicate_ids[memory.id] = duplicate_id
    return Duplicates(duplicate_ids, tuple(ended_ids), retried_ids)


def has_ended(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is superseded, expired or no longer valid."""
    return has_past([getattr(memory, name) for name in ENDS], now)


def has_past(ends: Iterable[Any], now: datetime) -> bool:
    """Return whether one of these times is past. None is never past."""
    return any(end is not None and end <= now for end in ends)


def release_hashes(scope: Scope, ended_ids: Iterable[str]) -> list[Operation]:
    """Return the operations that let the texts of ended memories be stored again."""
    # Hashes are unique, so the ended memory must release its hash before the new memory can have it.
    return [Patch(Memory, (scope.organization, memory_id), {"hash": None}) for memory_id in ended_ids]


def _find_by_idempotency_key(
    records: Records, scope: Scope, drafts: Sequence[Draft]
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the drafts whose key was used before, each with the memory it was used for, and which are retries.

    A key belongs to one user, or to writes without a user. All drafts of a write have the same user.
    """
    keyed_drafts = [draft for draft in drafts if draft.idempotency_key is not None]
    if not keyed_drafts:
        return {}, frozenset()
    where = [
        Where("user_id", Op.EQ, keyed_drafts[0].memory.user_id or ""),
        Where("idempotency_key", Op.IN, list({draft.idempotency_key for draft in keyed_drafts})),
    ]
    used_keys: dict[str | None, tuple[bytes | None, str]] = {
        line.idempotency_key: (line.digest, line.entity_id) for line in records.scan(Outbox, scope.organization, where)
    }
    retried_ids = frozenset(draft.memory.id for draft in keyed_drafts if draft.idempotency_key in used_keys)
    duplicate_ids = {}
    for draft in keyed_drafts:
        digest = compute_content_hash(draft.memory)
        first_digest, memory_id = used_keys.setdefault(draft.idempotency_key, (digest, draft.memory.id))
        if first_digest is not None and first_digest != digest:  # None after a purge, which removes the digest
            raise IdempotencyMismatch(
                f"idempotency key {draft.idempotency_key!r} was used for something else",
                remedy="use a new key for a new memory",
            )
        # A retry may pass an id of the caller's own: then the stored memory and the draft have the same id.
        if memory_id != draft.memory.id or draft.memory.id in retried_ids:
            duplicate_ids[draft.memory.id] = memory_id
    return duplicate_ids, retried_ids
