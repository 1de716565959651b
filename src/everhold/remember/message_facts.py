"""Store the facts in messages of a session as memories that name their message."""

import hashlib
from collections.abc import Sequence

from everhold import clock
from everhold.model import Memory, Message, Outbox, Scope
from everhold.model.validation import validate_row
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import Draft
from everhold.remember.pipeline import store
from everhold.remember.reading import draft_facts
from everhold.schema.operations import Op, Where

# The role whose messages are read for facts: what an assistant says need not be true.
_READ_ROLE = "user"

_BATCH = 500
_DIGEST_BYTES = 16


def remember_facts(deps: WriteDeps, scope: Scope, messages: Sequence[Message]) -> list[Memory]:
    """Store the facts in messages, and return those that are in the store, each once.

    A fact that was stored from the same message before is not stored again, even if it has been forgotten since.
    """
    if not deps.reading.extract:
        return []
    drafts_by_message = [_draft_facts(deps, message) for message in messages if message.role == _READ_ROLE]
    used = _find_used(deps, scope, [draft for drafts in drafts_by_message for draft in drafts])
    names = list(used.values())
    # Each message is a write of its own, because a later message may repeat or replace what an earlier one says.
    for drafts in drafts_by_message:
        fresh = [draft for draft in drafts if draft.idempotency_key not in used]
        names += [memory.id for memory in (store(deps, scope, fresh, clock.now()) if fresh else ())]
    facts = deps.records.get(Memory, scope.organization, list(dict.fromkeys(names))) if names else {}
    return [facts[name] for name in dict.fromkeys(names) if name in facts]


def _draft_facts(deps: WriteDeps, message: Message) -> list[Draft]:
    if not message.text:
        return []
    drafts = []
    for draft in draft_facts(_as_turn(message), deps.reading.zone):
        provenance = {"message": message.id, "span": draft.memory.provenance["span"]}
        fact = draft.memory.evolve(provenance=provenance)
        drafts.append(draft._replace(memory=fact, idempotency_key=_make_key(message, fact), source_id=None))
    return drafts


def _as_turn(message: Message) -> Memory:
    """Convert a message to the memory of a turn, from which facts can be read; it is not stored."""
    kept = ("id", "organization_id", "project_id", "user_id", "agent_id", "session_id", "created_by_id", "text")
    reach = "agent" if message.agent_id else "user" if message.user_id else "session"
    own = {"kind": "conversation", "speaker": message.name, "reach": reach}
    stamps = {"created_at": message.created_at, "updated_at": message.updated_at}
    return validate_row(Memory, {**{name: message.__dict__[name] for name in kept}, **own, **stamps})


def _make_key(message: Message, fact: Memory) -> str:
    # Hashed, because an id alone may be as long as a key can be.
    identity = f"{message.id}\x1f{fact.kind}\x1f{fact.text}"
    return f"told:{hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def _find_used(deps: WriteDeps, scope: Scope, drafts: Sequence[Draft]) -> dict[str | None, str]:
    """Return the keys of facts that were stored before, each with the id of its memory."""
    # A key belongs to one user, and the drafts are expected to have the same user.
    used: dict[str | None, str] = {}
    for start in range(0, len(drafts), _BATCH):
        batch = drafts[start : start + _BATCH]
        where = [
            Where("user_id", Op.EQ, batch[0].memory.user_id or ""),
            Where("idempotency_key", Op.IN, [draft.idempotency_key for draft in batch]),
        ]
        lines = deps.records.scan(Outbox, scope.organization, where)
        used |= {line.idempotency_key: line.entity_id for line in lines}
    return used
