"""Forget memories: hide them, which can be undone, or purge them, which cannot be undone."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from everhold import clock
from everhold.errors import InvalidInput, format_value
from everhold.model import AccessLog, Job, Memory, Message, Organization, Outbox, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.fields import is_id
from everhold.model.validation import explain_errors
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.remember.deps import WriteDeps
from everhold.remember.erasure import find_absorbed, find_derived, plan_erasure
from everhold.remember.extracted import drop_messages, find_extracted
from everhold.remember.journal import make_change
from everhold.remember.lookup import require_memory
from everhold.remember.versions import make_version_check, report_current_version, require_version
from everhold.schema.operations import Delete, Hide, Op, Operation, Patch, Put, Where

# The maximum number of memories in a result; further ones are only counted.
MAX_SHOWN = 100
_BATCH = 500
logger = logging.getLogger(__name__)

JOB = "forget"


@dataclass(frozen=True)
class Forgotten:
    """The number of memories that were forgotten, or in a preview would be, and the first MAX_SHOWN of them."""

    count: int
    memories: tuple[Memory, ...]
    preview: bool
    derived: tuple[Memory, ...] = ()
    """The first memories that were derived from the forgotten ones and are purged with them, if they are purged."""
    messages: tuple[Message, ...] = ()
    """The messages that `memories` were read from. They still contain the text; `delete_message` deletes one."""


def forget(deps: WriteDeps, scope: Scope, name: str, *, hard: bool, expected_version: int | None = None) -> Memory:
    """Hide a memory and return it; with `hard`, purge it and all that belongs to it, even if it is already hidden."""
    memory = require_memory(deps.records, scope, name, deleted=hard)
    require_version(memory, expected_version)
    now = clock.now()
    operations = _make_operations(deps, scope, [memory], now, hard=hard)
    with report_current_version(deps.records, memory):
        # The version is checked in the first part of the commit, so a stale version changes nothing.
        _commit(deps, [*make_version_check(memory, expected_version, now), *operations], [])
    if hard:
        deps.drop_cached_texts()
    return memory


def erase_derived_of_owner(deps: WriteDeps, kind: str, organization: str, owner_id: str) -> None:
    """Purge the memories derived from those of a user, project or session, and remove references to these elsewhere.

    `kind` is "user", "project" or "session". The owner's own memories are not deleted here, but with the owner.
    """
    where = [Where(f"{kind}_id", Op.EQ, owner_id)]
    ids = [memory_id for (memory_id,) in deps.records.columns(Memory, organization, ("id",), where, deleted=True)]
    scope = Scope(organization=organization)
    for start in range(0, len(ids), _BATCH):
        now = clock.now()
        memories = deps.records.get(Memory, organization, ids[start : start + _BATCH], deleted=True)
        erasure = plan_erasure(deps.records, deps.chunking, list(memories.values()), now)
        outside_memories = [memory for memory in erasure.derived if memory.__dict__[f"{kind}_id"] != owner_id]
        _commit(deps, [*erasure.operations, *_make_deletions(deps, scope, outside_memories, now, derived=True)], [])
    if kind == "session":
        messages = deps.records.scan(Message, organization, where, deleted=True)
        _commit(deps, make_message_eraser(deps)(messages, clock.now()), [])
    deps.drop_cached_texts()


def make_message_eraser(deps: WriteDeps) -> Callable[[Sequence[Message], datetime], list[Operation]]:
    """Return a function that makes the operations to erase the memories that were read from purged messages."""

    def erase(messages: Sequence[Message], now: datetime) -> list[Operation]:
        if not messages:
            return []
        scope = Scope(organization=messages[0].organization_id)
        without_source, with_source = find_extracted(deps.records, scope.organization, messages)
        erasure = plan_erasure(deps.records, deps.chunking, without_source, now)
        deletions = _make_deletions(deps, scope, [*without_source, *erasure.derived], now, derived=True)
        message_ids = {message.id for message in messages}
        return [*erasure.operations, *deletions, *(drop_messages(memory, message_ids, now) for memory in with_source)]

    return erase


def erase_keys(deps: WriteDeps, organization: str) -> None:
    """Remove an organization's idempotency keys from the feed, with the digests that could confirm a guessed text."""
    where = [Where("idempotency_key", Op.NE, None)]
    lines = list(deps.records.columns(Outbox, organization, ("sequence",), where))
    _commit(deps, [Patch(Outbox, line, {"idempotency_key": None, "digest": None}) for line in lines], [])
    deps.drop_cached_texts()


def make_eraser(deps: WriteDeps) -> Callable[[Sequence[Memory], datetime, bool], list[Operation]]:
    """Return a function that makes the operations to remove all traces of memories that maintenance purges."""

    def erase(memories: Sequence[Memory], now: datetime, with_derived: bool) -> list[Operation]:
        scope = Scope(organization=memories[0].organization_id)
        absorbed = find_absorbed(deps.records, scope.organization, memories)
        erasure = plan_erasure(deps.records, deps.chunking, memories, now, with_derived=with_derived, absorbed=absorbed)
        return [*erasure.operations, *_make_deletions(deps, scope, erasure.derived, now, derived=True)]

    return erase


def find_derived_from(deps: WriteDeps, organization: str, ids: Sequence[str]) -> list[Memory]:
    """Return the derived memories that a hard forget of these purges too."""
    memories: list[Memory] = []
    for start in range(0, len(ids), _BATCH):
        memories += deps.records.get(Memory, organization, ids[start : start + _BATCH]).values()
    return find_derived(deps.records, memories)


def forget_all(
    deps: WriteDeps,
    scope: Scope,
    ids: Sequence[str],
    *,
    hard: bool,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Forget the memories with these ids as a job that can be resumed after an interruption; return how many."""
    now = clock.now()
    # The ids are stored before the first deletion, so that a resumed job forgets these memories and no others.
    job = Job(
        id=clock.make_id("job"),
        organization_id=scope.organization,
        created_at=now,
        updated_at=now,
        kind=JOB,
        status="running",
        parameters={"hard": hard, "scope": scope.model_dump(exclude_none=True)},
        total=len(ids),
        state={"ids": list(ids)},
    )
    deps.records.commit([Put(job)])
    return resume(deps, job, progress)


@dataclass(frozen=True)
class ForgetTask:
    """The checked parameters of a forget job."""

    scope: Scope
    hard: bool
    ids: list[str]


def read_job(job: Job) -> ForgetTask:
    """Return a job's parameters; raise InvalidInput unless they name a scope of the job's own organization."""
    hard, ids = job.parameters.get("hard"), job.state.get("ids")
    if not isinstance(hard, bool):
        raise InvalidInput(f"parameters.hard is {format_value(hard)}", value=hard, remedy="it must be true or false")
    if not isinstance(ids, list) or not all(isinstance(memory_id, str) and is_id(memory_id) for memory_id in ids):
        raise InvalidInput(f"state.ids is {format_value(ids)}", value=ids, remedy="it must be a list of memory ids")
    try:
        scope = Scope.model_validate(job.parameters.get("scope"))
    except ValidationError as error:
        raise explain_errors(error, "parameters.scope", Scope.model_fields) from None
    if scope.organization != job.organization_id:
        raise InvalidInput(
            f"parameters.scope names organization {scope.organization!r}",
            value=scope.organization,
            remedy=f"the job is of {job.organization_id!r}",
        )
    return ForgetTask(scope, hard, ids)


def resume(deps: WriteDeps, job: Job, progress: Callable[[int], None] | None = None) -> int:
    """Finish a job and return how many memories it forgot; each batch is committed with the job's progress."""
    task = read_job(job)
    scope, hard, ids = task.scope, task.hard, task.ids
    processed, forgotten = job.progress, 0
    while processed < len(ids):
        batch = ids[processed : processed + _BATCH]
        now = clock.now()
        stored = deps.records.get(Memory, scope.organization, batch, deleted=hard)
        memories = [
            stored[memory_id] for memory_id in batch if memory_id in stored and scope.can_read(stored[memory_id])
        ]
        processed += len(batch)
        progress_patch = Patch(Job, (job.organization_id, job.id), {"progress": processed, "updated_at": now})
        _commit(deps, _make_operations(deps, scope, memories, now, hard=hard), [progress_patch])
        forgotten += len(memories)
        if progress:
            progress(len(batch))
    final_values: dict[str, Any] = {"status": "done", "state": {}, "updated_at": clock.now()}
    deps.records.commit([Patch(Job, (job.organization_id, job.id), final_values)])
    if hard:
        deps.drop_cached_texts()
    return forgotten


def count_unforgotten(records: Records) -> int:
    """Return how many memories interrupted jobs have yet to forget, in all organizations."""
    jobs = [
        job for organization in records.scan(Organization, None) for job in find_running_jobs(records, organization.id)
    ]
    return sum((job.total or 0) - job.progress for job in jobs)


def resume_all(deps: WriteDeps, progress: Callable[[int], None] | None = None) -> None:
    """Finish interrupted jobs in every organization; mark a job with invalid parameters as failed."""
    for organization in deps.records.scan(Organization, None):
        for job in find_running_jobs(deps.records, organization.id):
            logger.info("resuming an interrupted forget job at %d of %d memories", job.progress, job.total or 0)
            try:
                resume(deps, job, progress)
            except InvalidInput as error:
                failure_values = {"status": "failed", "error": str(error), "updated_at": clock.now()}
                deps.records.commit([Patch(Job, (job.organization_id, job.id), failure_values)])


def find_running_jobs(records: Records, organization: str) -> list[Job]:
    """Return the forget jobs of an organization that are not finished."""
    return records.scan(Job, organization, [Where("kind", Op.EQ, JOB), Where("status", Op.EQ, "running")])


def _commit(deps: WriteDeps, operations: Sequence[Operation], last: Sequence[Operation]) -> None:
    """Commit in one transaction if the store takes that many operations, else in parts."""
    # The progress of a job, `last`, is committed with the last part. A job that stops between two parts repeats its
    # batch, which is safe: it reads again which of the memories still exist.
    part_size = deps.records.traits.commit_limit - len(last)
    parts = [operations[start : start + part_size] for start in range(0, len(operations), part_size)] or [()]
    for number, part in enumerate(parts, 1):
        deps.records.commit([*part, *(last if number == len(parts) else ())])


def _make_operations(
    deps: WriteDeps, scope: Scope, memories: Sequence[Memory], now: datetime, *, hard: bool
) -> list[Operation]:
    if hard:
        erasure = plan_erasure(deps.records, deps.chunking, memories, now)
        return [
            *erasure.operations,
            *_make_deletions(deps, scope, erasure.derived, now, derived=True),
            *_make_deletions(deps, scope, memories, now),
        ]
    return make_hiding(deps, scope, memories, now)


def make_hiding(
    deps: WriteDeps, scope: Scope, memories: Sequence[Memory], now: datetime, reason: str | None = None
) -> list[Operation]:
    """Return the operations that hide memories as one change that can be undone."""
    operations: list[Operation] = []
    deletion_id = clock.make_id("del")
    details = {} if reason is None else {"reason": reason, "run": deps.run_id}
    for memory in memories:
        line = _make_line(deps, scope, memory, now, {"hard": False, **details})
        hide = Hide(Memory, (scope.organization, memory.id), deletion_id, now)
        operations += [hide, Put(line), Put(make_announcement(memory, "delete"))]
    if memories:
        ids = [memory.id for memory in memories]
        before = {"deletion_id": deletion_id}
        operations.append(
            Put(make_change(scope, "forget", ids, now, reason, before=before, after={}, run_id=deps.run_id))
        )
    return operations


def _make_deletions(
    deps: WriteDeps, scope: Scope, memories: Sequence[Memory], now: datetime, *, derived: bool = False
) -> list[Operation]:
    """Return the operations that purge memories, with a line in the log for each."""
    operations: list[Operation] = note_purge() if memories else []
    for memory in memories:
        line = _make_line(deps, scope, memory, now, {"hard": True, **({"derived": True} if derived else {})})
        delete = Delete(Memory, (scope.organization, memory.id))
        operations += [delete, Put(line), Put(make_announcement(memory, "delete"))]
    return operations


def _make_line(deps: WriteDeps, scope: Scope, memory: Memory, now: datetime, request: dict[str, Any]) -> AccessLog:
    request = {"memory": memory.id, **request}
    return make_access_line(scope, "delete", now, request, memory_id=memory.id, interface=deps.interface)
