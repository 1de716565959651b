"""Find the memories that were extracted from purged messages, and the reflections that quote those messages."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from everhold.batches import split_into_batches
from everhold.model import Memory, Message, Session
from everhold.ports.records import Records
from everhold.schema.operations import Op, Operation, Patch, Where

_BATCH = 500


class ExtractedMemories(NamedTuple):
    """Memories that were extracted from purged messages, those without another source separate from those with one."""

    without_source: list[Memory]
    with_source: list[Memory]


def find_extracted(records: Records, organization: str, messages: Sequence[Message]) -> ExtractedMemories:
    """Return the memories that these messages state, and the reflections that quote these messages."""
    message_ids_by_user: dict[str | None, set[str]] = {}
    for message in messages:
        message_ids_by_user.setdefault(message.user_id, set()).add(message.id)
    extracted = ExtractedMemories(_find_quoting(records, organization, list(messages)), [])
    for user_id, message_ids in message_ids_by_user.items():
        user_condition = Where("user_id", Op.EQ, user_id)
        memories = records.scan(
            Memory, organization, [user_condition, Where("provenance.messages", Op.NE, None)], deleted=True
        )
        for batch in split_into_batches(sorted(message_ids), _BATCH):
            memories += records.scan(
                Memory, organization, [user_condition, Where("provenance.message", Op.IN, batch)], deleted=True
            )
        for memory in {memory.id: memory for memory in memories}.values():
            if not message_ids.isdisjoint(memory.message_ids):
                has_source = not message_ids.issuperset(memory.message_ids) or memory.provenance.get("restated")
                memories_of_kind = extracted.with_source if has_source else extracted.without_source
                memories_of_kind.append(memory)
    return extracted


def _find_quoting(records: Records, organization: str, messages: Sequence[Message]) -> list[Memory]:
    """Return the reflections that quote one of these messages and belong to the user of a message or of its session."""
    message_ids, session_ids = {message.id for message in messages}, {message.session_id for message in messages}
    sorted_ids = sorted(session_id for session_id in session_ids if session_id is not None)
    sessions = records.get(Session, organization, sorted_ids, deleted=True) if sorted_ids else {}
    user_ids = {message.user_id for message in messages} | {session.user_id for session in sessions.values()}
    where = [Where("kind", Op.EQ, "reflection"), Where("provenance.quoted_messages", Op.NE, None)]
    reflections = records.scan(Memory, organization, where, deleted=True)
    return [memory for memory in reflections if memory.user_id in user_ids and _quotes_any(memory, message_ids)]


def _quotes_any(memory: Memory, message_ids: Collection[str]) -> bool:
    quoted_ids = memory.provenance.get("quoted_messages")
    # Callers may write anything into a provenance.
    return isinstance(quoted_ids, list) and any(
        isinstance(message_id, str) and message_id in message_ids for message_id in quoted_ids
    )


def drop_messages(memory: Memory, purged_ids: Collection[str], now: datetime) -> Operation:
    """Return the operation that removes purged messages from the provenance of a memory that stays."""
    remaining_ids = [message_id for message_id in memory.message_ids if message_id not in purged_ids]
    other_values = {key: value for key, value in memory.provenance.items() if key not in ("message", "messages")}
    first_message = {"message": remaining_ids[0]} if remaining_ids else {}
    further_messages = {"messages": remaining_ids[1:]} if remaining_ids[1:] else {}
    changes = {"provenance": {**other_values, **first_message, **further_messages}, "updated_at": now}
    return Patch(Memory, (memory.organization_id, memory.id), changes)
