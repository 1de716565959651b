"""Let a language model read facts from messages, during maintenance and not when messages are written.

    unread utterances → one prompt → check each item of the answer → remember the facts → move the cursor

Utterances are memories of messages and the messages of sessions. Each of these two sources has a cursor in the
organization's job. The cursor moves after the facts are remembered. After a crash in between, the same utterances are
read again, and the idempotency key of each fact prevents storing it twice. A fact that is already known is reinforced,
like any repeated memory.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from everhold import clock
from everhold.errors import StaleVersion
from everhold.maintenance.grounding import Fact, Utterance, check_answer, make_prompt
from everhold.model import Job, Memory, Message, Organization, Scope, Session
from everhold.model.memory import REPEATABLE_KINDS
from everhold.ports.language_model import LanguageModel
from everhold.ports.leases import LONG_DURATION, hold_lease
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Page, Patch, Where

# The confidence of a fact that a language model read from an utterance.
CONFIDENCE = 0.7

# Limits in characters: longer utterances are documents and are not read; a prompt ends after it exceeds its limit.
MAX_UTTERANCE_LENGTH = 20_000
PROMPT_CHARACTERS = 20_000

LEASE = "extract"
_JOB = "llm-extraction"
_DIGEST_BYTES = 16

# Remembers memories in a scope. Each memory is a mapping of its fields.
RememberItems = Callable[[Scope, Sequence[Mapping[str, Any]]], object]


class Extracted(NamedTuple):
    """The numbers of utterances read, facts remembered or reinforced, and items refused.

    An answer that is not a list counts as one refused item.
    """

    read: int = 0
    kept: int = 0
    refused: int = 0


class _Source(NamedTuple):
    """Rows that hold utterances, ordered by the time in the column `order`."""

    entity: type[Memory] | type[Message]
    order: str
    where: Sequence[Where]
    read: Callable[[Records, Sequence[Any]], list[Utterance | None]]
    """Returns an utterance for each row, or None for a row that is not read."""


def extract(records: Records, language_model: LanguageModel, remember: RememberItems, batch: int) -> Extracted:
    """Read all unread utterances and remember their facts; do nothing while another process does so.

    An error of the model ends the call. The next call continues after the last finished batch.
    """
    total = Extracted()
    with hold_lease(records, LEASE, duration=LONG_DURATION) as lease, suppress(StaleVersion):
        if lease is not None:
            for extracted in extract_batches(records, language_model, remember, batch):
                total = Extracted(*map(sum, zip(total, extracted, strict=True)))
                lease.commit()
    return total


def extract_batches(
    records: Records, language_model: LanguageModel, remember: RememberItems, batch: int
) -> Iterator[Extracted]:
    """Read the unread utterances batch by batch, oldest first; yield the counts of each batch."""
    for organization in records.scan(Organization, None):
        for source in _SOURCES:
            while extracted := _read_batch(records, organization.id, source, language_model, remember, batch):
                yield extracted


def count_unread(records: Records) -> int:
    """Return how many utterances have not been read yet."""
    unread = 0
    for organization in records.scan(Organization, None):
        job = _load_job(records, organization.id)
        for source in _SOURCES:
            page = _read_cursor(job, source)
            after = [Where(source.order, Op.GT, page.value)] if page is not None else []
            unread += records.count(source.entity, organization.id, [*source.where, *after])
    return unread


def _read_batch(
    records: Records,
    organization: str,
    source: _Source,
    language_model: LanguageModel,
    remember: RememberItems,
    batch: int,
) -> Extracted | None:
    """Read one batch and return its counts, or None if nothing was left to read."""
    job = _load_job(records, organization)
    rows = _find_unread(records, job, source, batch)
    if not rows:
        return None
    utterances = [utterance for utterance in source.read(records, rows) if utterance is not None]
    answer = language_model.complete(make_prompt(utterances)) if utterances else "[]"
    facts, refused_count = check_answer(answer, utterances)
    for scope, items in _group_by_scope(facts, language_model.name).items():
        remember(scope, items)
    # The cursor moves after the facts are stored, so that a crash in between repeats the batch and does not skip it.
    _move_cursor(records, job, source, rows)
    return Extracted(len(utterances), len(facts), refused_count)


# the cursor


def _find_unread(records: Records, job: Job, source: _Source, batch: int) -> list[Any]:
    """Return the next unread rows, oldest first, as many as fit into one prompt."""
    after = _read_cursor(job, source)
    rows: list[Any] = records.scan(
        source.entity, job.organization_id, source.where, order=source.order, after=after, limit=batch
    )
    length = 0
    for number, row in enumerate(rows, 1):
        length += len(row.text) if len(row.text) <= MAX_UTTERANCE_LENGTH else 0
        if length > PROMPT_CHARACTERS:
            return rows[:number]
    return rows


def _read_cursor(job: Job, source: _Source) -> Page | None:
    cursor = job.state.get(source.entity.__name__)
    if cursor is None:
        return None
    return Page(datetime.fromisoformat(cursor["time"]), (job.organization_id, cursor["id"]))


def _move_cursor(records: Records, job: Job, source: _Source, rows: Sequence[Any]) -> None:
    last = rows[-1]
    cursor = {"time": last.__dict__[source.order].isoformat(), "id": last.id}
    changes = {
        "state": {**job.state, source.entity.__name__: cursor},
        "progress": job.progress + len(rows),
        "updated_at": clock.now(),
    }
    patch = Patch(Job, (job.organization_id, job.id), changes, version=job.version)
    with suppress(StaleVersion):  # another process took over an expired lease and moved the cursor
        records.commit([Ensure(job), patch])


def _load_job(records: Records, organization: str) -> Job:
    """Return the organization's extraction job, or a new one that is not stored yet."""
    job = records.get(Job, organization, [_JOB], deleted=True).get(_JOB)
    now = clock.now()
    return job or Job(id=_JOB, organization_id=organization, created_at=now, updated_at=now, kind=_JOB)


# the sources


def _read_memories(records: Records, memories: Sequence[Memory]) -> list[Utterance | None]:
    now = clock.now()
    return [_make_utterance(memory) if _is_readable(memory, now) else None for memory in memories]


def _is_readable(memory: Memory, now: datetime) -> bool:
    has_ended = any(end is not None and end <= now for end in (memory.superseded_at, memory.expires_at))
    return not has_ended and _has_readable_length(memory.text)


def _has_readable_length(text: str) -> bool:
    return bool(text.strip()) and len(text) <= MAX_UTTERANCE_LENGTH


def _make_utterance(memory: Memory) -> Utterance:
    scope = _choose_scope(memory, memory.project_id)
    return Utterance(
        "memory",
        memory.id,
        memory.text,
        memory.speaker,
        memory.occurred_at or memory.created_at,
        scope,
        trust=memory.trust,
        source_agent=memory.source_agent,
        reach=memory.reach if memory.reach != "session" or scope.session is not None else None,
    )


def _read_messages(records: Records, messages: Sequence[Message]) -> list[Utterance | None]:
    organization = messages[0].organization_id
    session_ids = sorted({message.session_id for message in messages if message.session_id is not None})
    sessions = records.get(Session, organization, session_ids)
    utterances: list[Utterance | None] = []
    for message in messages:
        session = sessions.get(message.session_id or "")
        if session is None or not _has_readable_length(message.text or ""):
            utterances.append(None)
            continue
        scope = _choose_scope(message, session.project_id)
        text = message.text or ""
        utterances.append(Utterance("message", message.id, text, message.name, message.created_at, scope))
    return utterances


def _choose_scope(row: Memory | Message, project: str | None) -> Scope:
    """Return the scope of the facts. It names the session only if the row has neither a user nor an agent."""
    has_no_owner = row.user_id is None and row.agent_id is None
    return Scope(
        organization=row.organization_id,
        project=project,
        user=row.user_id,
        agent=row.agent_id,
        session=row.session_id if has_no_owner else None,
    )


_SOURCES = (
    _Source(Memory, "created_at", [Where("kind", Op.IN, sorted(REPEATABLE_KINDS))], _read_memories),
    # An imported message may have an old `created_at`; `updated_at` is when it was written to this store.
    _Source(Message, "updated_at", [Where("role", Op.EQ, "user"), Where("text", Op.GT, "")], _read_messages),
)


# remembering


def _group_by_scope(facts: Sequence[Fact], model: str) -> dict[Scope, list[dict[str, Any]]]:
    items_by_scope: dict[Scope, list[dict[str, Any]]] = {}
    for fact in facts:
        items_by_scope.setdefault(fact.utterance.scope, []).append(_make_item(fact, model))
    return items_by_scope


def _make_item(fact: Fact, model: str) -> dict[str, Any]:
    """Return the fields of the memory that is made from an extracted fact."""
    utterance = fact.utterance
    # A digest, because an id alone may be as long as an idempotency key. The separator occurs in no id.
    identity = f"{utterance.id}\x1f{fact.kind}\x1f{fact.text}"
    digest = hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    item = {
        "text": fact.text,
        "kind": fact.kind,
        "confidence": CONFIDENCE,
        "trust": utterance.trust,
        "source_agent": utterance.source_agent,
        "reach": utterance.reach,
        # The time of the utterance, not of this run: the fact must not replace what was said in between.
        "occurred_at": utterance.said_at,
        "provenance": {utterance.kind: utterance.id, "by": model},
        "idempotency_key": f"llm:{digest}",
    }
    return {name: value for name, value in item.items() if value is not None}
