"""Store the facts in a session's messages as memories whose provenance names the message."""

import hashlib
from collections.abc import Callable, Sequence

from everhold import clock
from everhold.model import Memory, Message, Outbox, Scope
from everhold.model.validation import validate_row
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import Draft
from everhold.remember.pipeline import store
from everhold.remember.reading import add_quotes, draft_facts
from everhold.schema.operations import Op, Where

# Returns the start and the end of sentences in a text.
FindSentences = Callable[[str], Sequence[tuple[int, int]]]

# Facts are read only from messages of this role: what an assistant says need not be true.
_READ_ROLE = "user"

_BATCH = 500
_DIGEST_BYTES = 16


def remember_facts(
    deps: WriteDeps, scope: Scope, messages: Sequence[Message], find_sentences: FindSentences
) -> list[Memory]:
    """Store the facts in messages and return the stored facts, each once.

    `find_sentences` returns the start and the end of each sentence of a text that states a lasting attribute of its
    speaker. If no fact can be read from such a sentence, the sentence itself is stored, so that it outranks an older
    fact. A fact that was stored from the same message before is not stored again, even if it has been forgotten since.
    """
    if not deps.reading.extract:
        return []
    drafts_by_message = [
        _draft_facts(deps, message, find_sentences) for message in messages if message.role == _READ_ROLE
    ]
    stored_ids_by_key = _find_stored_ids(deps, scope, [draft for drafts in drafts_by_message for draft in drafts])
    memory_ids = list(stored_ids_by_key.values())
    # Each message is a separate write, because a later message may repeat or replace what an earlier one says.
    for drafts in drafts_by_message:
        unstored_drafts = [draft for draft in drafts if draft.idempotency_key not in stored_ids_by_key]
        memory_ids += [
            memory.id for memory in (store(deps, scope, unstored_drafts, clock.now()) if unstored_drafts else ())
        ]
    facts = deps.records.get(Memory, scope.organization, list(dict.fromkeys(memory_ids))) if memory_ids else {}
    return [facts[memory_id] for memory_id in dict.fromkeys(memory_ids) if memory_id in facts]


def _draft_facts(deps: WriteDeps, message: Message, find_sentences: FindSentences) -> list[Draft]:
    if not message.text:
        return []
    drafts = []
    turn, is_by_user = _make_turn(message), message.user_id is not None
    facts = draft_facts(turn, deps.reading.zone, is_by_user=is_by_user)
    for draft in add_quotes(turn, find_sentences(message.text), facts) if is_by_user else facts:
        provenance = {"message": message.id, "span": draft.memory.provenance["span"]}
        fact = draft.memory.evolve(provenance=provenance)
        drafts.append(draft._replace(memory=fact, idempotency_key=_make_key(message, fact), source_id=None))
    return drafts


def _make_turn(message: Message) -> Memory:
    """Convert a message to the memory of a turn, from which facts can be read; it is not stored."""
    copied_fields = (
        "id",
        "organization_id",
        "project_id",
        "user_id",
        "agent_id",
        "session_id",
        "created_by_id",
        "text",
    )
    reach = "agent" if message.agent_id else "user" if message.user_id else "session"
    turn_fields = {"kind": "conversation", "speaker": message.name, "reach": reach}
    timestamps = {"created_at": message.created_at, "updated_at": message.updated_at}
    return validate_row(
        Memory, {**{name: message.__dict__[name] for name in copied_fields}, **turn_fields, **timestamps}
    )


def _make_key(message: Message, fact: Memory) -> str:
    # Hashed, because a message id alone may already have the maximum length of a key.
    identity = f"{message.id}\x1f{fact.kind}\x1f{fact.text}"
    return f"told:{hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def _find_stored_ids(deps: WriteDeps, scope: Scope, drafts: Sequence[Draft]) -> dict[str | None, str]:
    """Return the memory ids of the facts that were stored before, by idempotency key."""
    # A key is unique for one user, and all drafts are expected to have the same user.
    ids_by_key: dict[str | None, str] = {}
    for start in range(0, len(drafts), _BATCH):
        batch = drafts[start : start + _BATCH]
        where = [
            Where("user_id", Op.EQ, batch[0].memory.user_id or ""),
            Where("idempotency_key", Op.IN, [draft.idempotency_key for draft in batch]),
        ]
        lines = deps.records.scan(Outbox, scope.organization, where)
        ids_by_key |= {line.idempotency_key: line.entity_id for line in lines}
    return ids_by_key
