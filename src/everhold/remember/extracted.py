"""Find the memories that were extracted from messages which are purged, and the reflections that quote them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from everhold.batches import split_into_batches
from everhold.model import Memory, Message, Session
from everhold.ports.records import Records
from everhold.schema.operations import Op, Operation, Patch, Where

_BATCH = 500


class ExtractedMemories(NamedTuple):
    """Memories that were extracted from purged messages: those without another source, and those with one."""

    without_source: list[Memory]
    with_source: list[Memory]


def find_extracted(records: Records, organization: str, messages: Sequence[Message]) -> ExtractedMemories:
    """Return the memories that were extracted from these messages of sessions, or that these messages repeated."""
    by_user: dict[str | None, set[str]] = {}
    for message in messages:
        by_user.setdefault(message.user_id, set()).add(message.id)
    extracted = ExtractedMemories(_find_quoting(records, organization, list(messages)), [])
    for user_id, gone in by_user.items():
        own = Where("user_id", Op.EQ, user_id)
        memories = records.scan(Memory, organization, [own, Where("provenance.messages", Op.NE, None)], deleted=True)
        for batch in split_into_batches(sorted(gone), _BATCH):
            memories += records.scan(
                Memory, organization, [own, Where("provenance.message", Op.IN, batch)], deleted=True
            )
        for memory in {memory.id: memory for memory in memories}.values():
            if not gone.isdisjoint(memory.message_ids):
                has_source = not gone.issuperset(memory.message_ids) or memory.provenance.get("restated")
                (extracted.with_source if has_source else extracted.without_source).append(memory)
    return extracted


def _find_quoting(records: Records, organization: str, messages: Sequence[Message]) -> list[Memory]:
    """Return the reflections that quote one of these messages, of the users whose messages or sessions they are."""
    gone, session_ids = {message.id for message in messages}, {message.session_id for message in messages}
    names = sorted(session_id for session_id in session_ids if session_id is not None)
    sessions = records.get(Session, organization, names, deleted=True) if names else {}
    users = {message.user_id for message in messages} | {session.user_id for session in sessions.values()}
    where = [Where("kind", Op.EQ, "reflection"), Where("provenance.quoted_messages", Op.NE, None)]
    reflections = records.scan(Memory, organization, where, deleted=True)
    return [memory for memory in reflections if memory.user_id in users and _quotes_one(memory, gone)]


def _quotes_one(memory: Memory, gone: Collection[str]) -> bool:
    names = memory.provenance.get("quoted_messages")
    # Callers may write anything into a provenance.
    return isinstance(names, list) and any(isinstance(name, str) and name in gone for name in names)


def drop_messages(memory: Memory, gone: Collection[str], now: datetime) -> Operation:
    """Return the operation that removes purged messages from the provenance of a memory that stays."""
    left = [name for name in memory.message_ids if name not in gone]
    others = {key: value for key, value in memory.provenance.items() if key not in ("message", "messages")}
    named = {"message": left[0]} if left else {}
    repeated = {"messages": left[1:]} if left[1:] else {}
    changes = {"provenance": {**others, **named, **repeated}, "updated_at": now}
    return Patch(Memory, (memory.organization_id, memory.id), changes)
