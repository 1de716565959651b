"""Forgetting: hidden and restorable, or purged for good; one memory, or all that a filter finds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from recollect import clock
from recollect.errors import InvalidInput
from recollect.model import Job, Memory, Organization, Scope
from recollect.model.access import access_line
from recollect.model.announcement import announcement
from recollect.model.fields import is_id
from recollect.model.validation import explained, shown
from recollect.ports.records import Records
from recollect.remember.held import held
from recollect.remember.journal import journal
from recollect.remember.pipeline import Keeper
from recollect.remember.versions import hold_version, require_version, telling_current_version
from recollect.schema.operations import Delete, Hide, Op, Operation, Patch, Put, Where

SHOWN = 100
_BATCH = 500
JOB = "forget"


@dataclass(frozen=True)
class Forgotten:
    """How many memories went, or would go, and the first of them."""

    count: int
    memories: tuple[Memory, ...]
    preview: bool


def forget(keeper: Keeper, scope: Scope, name: str, *, hard: bool, expected_version: int | None = None) -> Memory:
    """Hides a memory, or purges it with all that belongs to it. A hidden one can be purged too."""
    memory = held(keeper.records, scope, name, deleted=hard)
    require_version(memory, expected_version)
    now = clock.now()
    operations = _operations(keeper, scope, [memory], now, hard=hard)
    with telling_current_version(keeper.records, memory):
        keeper.records.commit([*hold_version(memory, expected_version, now), *operations])
    return memory


def forget_all(
    keeper: Keeper,
    scope: Scope,
    ids: Sequence[str],
    *,
    hard: bool,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Forgets a frozen list of memories as a job that goes on where it stopped, if it is stopped."""
    now = clock.now()
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
    keeper.records.commit([Put(job)])
    return resume(keeper, job, progress)


@dataclass(frozen=True)
class ForgetTask:
    """What a job says is to be forgotten, checked."""

    scope: Scope
    hard: bool
    ids: list[str]


def read_job(job: Job) -> ForgetTask:
    """Return what a job is to do. InvalidInput unless it describes a scope of the job's own organization."""
    hard, ids = job.parameters.get("hard"), job.state.get("ids")
    if not isinstance(hard, bool):
        raise InvalidInput(f"parameters.hard is {shown(hard)}; it must be true or false")
    if not isinstance(ids, list) or not all(isinstance(memory_id, str) and is_id(memory_id) for memory_id in ids):
        raise InvalidInput(f"state.ids is {shown(ids)}; it must be a list of memory ids")
    try:
        scope = Scope.model_validate(job.parameters.get("scope"))
    except ValidationError as error:
        raise explained(error, "parameters.scope", Scope.model_fields) from None
    if scope.organization != job.organization_id:
        raise InvalidInput(
            f"parameters.scope names organization {scope.organization!r}; the job is of {job.organization_id!r}"
        )
    return ForgetTask(scope, hard, ids)


def resume(keeper: Keeper, job: Job, progress: Callable[[int], None] | None = None) -> int:
    """Does what is left of a job: each batch and the note of how far it went are one commit."""
    task = read_job(job)
    scope, hard, ids = task.scope, task.hard, task.ids
    done, forgotten = job.progress, 0
    while done < len(ids):
        batch = ids[done : done + _BATCH]
        now = clock.now()
        found = keeper.records.get(Memory, scope.organization, batch, deleted=hard)
        memories = [found[one] for one in batch if one in found and scope.covers(found[one])]
        done += len(batch)
        keeper.records.commit(
            [
                *_operations(keeper, scope, memories, now, hard=hard),
                Patch(Job, (job.organization_id, job.id), {"progress": done, "updated_at": now}),
            ]
        )
        forgotten += len(memories)
        if progress:
            progress(len(batch))
    ended: dict[str, Any] = {"status": "done", "state": {}, "updated_at": clock.now()}
    keeper.records.commit([Patch(Job, (job.organization_id, job.id), ended)])
    return forgotten


def resume_all(keeper: Keeper) -> None:
    """Finish what was interrupted, in every organization. A job that cannot be read fails; the others go on."""
    for organization in keeper.records.scan(Organization, None):
        for job in running_jobs(keeper.records, organization.id):
            try:
                resume(keeper, job)
            except InvalidInput as error:
                failed = {"status": "failed", "error": str(error), "updated_at": clock.now()}
                keeper.records.commit([Patch(Job, (job.organization_id, job.id), failed)])


def running_jobs(records: Records, organization: str) -> list[Job]:
    return records.scan(Job, organization, [Where("kind", Op.EQ, JOB), Where("status", Op.EQ, "running")])


def _operations(
    keeper: Keeper, scope: Scope, memories: Sequence[Memory], now: datetime, *, hard: bool
) -> list[Operation]:
    operations: list[Operation] = []
    deletion_id = clock.make_id("del")
    for memory in memories:
        key = (scope.organization, memory.id)
        act: Operation = Delete(Memory, key) if hard else Hide(Memory, key, deletion_id, now)
        request = {"memory": memory.id, "hard": hard}
        line = access_line(
            scope, "delete", now, request, memory_id=None if hard else memory.id, interface=keeper.interface
        )
        operations += [act, Put(line), Put(announcement(memory, "delete"))]
    if memories and not hard:
        ids = [memory.id for memory in memories]
        operations.append(Put(journal(scope, "forget", ids, now, None, before={"deletion_id": deletion_id}, after={})))
    return operations
