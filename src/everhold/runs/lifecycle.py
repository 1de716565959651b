"""Begin, pause, resume, end and fork a run."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everhold import clock
from everhold.errors import (
    AlreadyExists,
    Conflict,
    IdempotencyMismatch,
    NotFound,
    Remedy,
    StaleVersion,
    StoreBusy,
    Verb,
)
from everhold.model import Execution, Scope
from everhold.model.validation import validate_row
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.runs.cycles import make_completion, make_result
from everhold.runs.deps import (
    UNFINISHED,
    RunDeps,
    RunStatus,
    make_lines,
    make_run_scope,
    require_active_agent,
    require_run,
)
from everhold.runs.procedures import draft_procedure
from everhold.runs.steps import find_last_cycle, load_history, require_cycle
from everhold.schema.codec import encode_json
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import Op, Operation, Patch, Put, Where

_DIGEST_BYTES = 16  # ids have 32 hexadecimal digits


class _RunExistsError(Exception):
    """A run with the caller's id already exists."""


def start_run(
    deps: RunDeps,
    scope: Scope,
    task: str,
    *,
    message_id: str | None = None,
    run_id: str | None = None,
    idempotency_key: str | None = None,
) -> Execution:
    """Begin a run and return it. If a run with this id or idempotency key and the same task exists, return that run.

    Raise Conflict if the scope's agent is paused or terminated.
    """
    if run_id is None and idempotency_key is not None:
        run_id = _make_keyed_id(scope, idempotency_key)
    owner = {**scope.columns, "organization_id": scope.organization, "created_by_id": scope.actor}
    values = {**owner, "message_id": message_id, "task": task}
    execution = _draft_run(values, run_id)
    stored = _find_repeated(deps, scope, execution) if run_id is not None else None
    if stored is not None:
        return stored
    require_active_agent(deps.records, scope.organization, scope.agent)
    return _add_run(deps, scope, execution)


def _make_keyed_id(scope: Scope, key: str) -> str:
    """Derive a run's id from its idempotency key and its scope."""
    # Without the unit separator, different parts could give the same text. The organization is part of every row's key.
    parts = (scope.user, scope.project, scope.agent, key)
    digest = hashlib.blake2b("\x1f".join(part or "" for part in parts).encode(), digest_size=_DIGEST_BYTES)
    return f"run_{digest.hexdigest()}"


def _draft_run(values: Mapping[str, Any], run_id: str | None) -> Execution:
    now = clock.now()
    defaults = {"id": run_id or clock.make_id("run"), "created_at": now, "updated_at": now, "started_at": now}
    return validate_row(Execution, {**values, **defaults})


def _add_run(deps: RunDeps, scope: Scope, execution: Execution) -> Execution:
    def make_operations() -> Sequence[Operation]:
        if deps.records.get(Execution, scope.organization, [execution.id], deleted=True):
            raise _RunExistsError
        lines = make_lines(deps, scope, execution, "create", execution.started_at, {})
        return [Put(execution), *lines]

    try:
        deps.remember(scope, [], cycle_id=None, make_further=make_operations)
    except _RunExistsError:
        stored = _find_repeated(deps, scope, execution)
        if stored is not None:
            return stored
        raise
    return execution


def _find_repeated(deps: RunDeps, scope: Scope, execution: Execution) -> Execution | None:
    """Return the stored run with this id and task; raise IdempotencyMismatch if another run has the id."""
    stored = deps.records.get(Execution, scope.organization, [execution.id], deleted=True).get(execution.id)
    if stored is None:
        return None
    repeated_fields = ("task", "message_id", "parent_id", "fork_index")
    if (
        stored.is_deleted
        or not scope.can_read(stored)
        or any(stored.__dict__[name] != execution.__dict__[name] for name in repeated_fields)
    ):
        raise IdempotencyMismatch(
            f"run id {execution.id!r} is taken", value=execution.id, remedy="choose another id or idempotency key"
        )
    return stored


def fork_run(
    deps: RunDeps, scope: Scope, run_id: str, cycle_index: int, *, task: str | None, fork_id: str | None
) -> Execution:
    """Begin a run that shares the history of another run up to a cycle and continues from there."""
    execution = require_run(deps.records, scope, run_id)
    cycle = require_cycle(deps.records, execution, cycle_index)
    if cycle.status == "running":
        raise Conflict(
            f"cycle {cycle_index} of run {run_id!r} has no result yet",
            value=cycle_index,
            remedy=Remedy("call {} first, or fork from an earlier cycle", Verb("complete")),
        )
    inherited_fields = ("organization_id", "project_id", "user_id", "agent_id", "session_id", "message_id", "task")
    values = {name: execution.__dict__[name] for name in inherited_fields}
    values["created_by_id"] = scope.actor
    if task is not None:
        values["task"] = task
    fork = _draft_run({**values, "parent_id": execution.id, "fork_index": cycle_index}, fork_id)
    run_scope = make_run_scope(execution)
    stored = _find_repeated(deps, run_scope, fork) if fork_id is not None else None
    if stored is not None:
        return stored
    require_active_agent(deps.records, scope.organization, execution.agent_id)
    return _add_run(deps, run_scope, fork)


def resume_run(deps: RunDeps, scope: Scope, run_id: str | None) -> Execution:
    """Return an unfinished run of the scope, by default the latest, and set it to running if it was paused."""
    execution = require_run(deps.records, scope, run_id) if run_id is not None else _find_unfinished(deps, scope)
    if execution.status == "running":
        return execution
    return change_run(deps, scope, execution.id, "running", ("paused",))


def _find_unfinished(deps: RunDeps, scope: Scope) -> Execution:
    rows = list_runs(deps, scope, statuses=UNFINISHED, limit=1)
    if not rows:
        raise NotFound("no unfinished run in this scope", remedy=Remedy("begin one with {}", Verb("run")))
    return rows[0]


def list_runs(deps: RunDeps, scope: Scope, *, statuses: Sequence[str], limit: int) -> list[Execution]:
    """Return the scope's runs with one of these statuses, or with any, latest first."""
    where = [*make_equalities(scope.limits), *([Where("status", Op.IN, list(statuses))] if statuses else [])]
    return deps.records.scan(Execution, scope.organization, where, order="started_at", descending=True, limit=limit)


def change_run(
    deps: RunDeps,
    scope: Scope,
    run_id: str,
    status: RunStatus,
    allowed: Sequence[str],
    *,
    error: str | None = None,
) -> Execution:
    """Set the status of a run and return the run; do nothing if it already has the status.

    If the run ends, its open proposal gets a result with the same status.
    """

    def commit(_: int) -> Execution:
        execution = require_run(deps.records, scope, run_id)
        if execution.status == status:
            return execution
        _require_status(execution, allowed, status)
        if status == "running":
            require_active_agent(deps.records, execution.organization_id, execution.agent_id)
        after = _set_status(execution, status, {"error": error})
        operations = [*_close_open_cycle(deps, execution, status, error), *_make_change(deps, execution, after)]
        return _commit(deps, operations, after)

    return _retry(commit, run_id)


def _retry(commit: Callable[[int], Execution], run_id: str) -> Execution:
    busy = StoreBusy(f"run {run_id!r} kept changing while its status was set")
    return retry("change the status of a run", commit, CONFLICTS, give_up=lambda _: busy)


def _commit(deps: RunDeps, operations: Sequence[Operation], after: Execution) -> Execution:
    try:
        deps.records.commit(operations)
    except (StaleVersion, AlreadyExists) as error:
        raise TryAgain("another writer changed the run") from error
    return after


def _require_status(execution: Execution, allowed: Sequence[str], status: str) -> None:
    if execution.status not in allowed:
        has_other_output = execution.status == status
        raise Conflict(
            f"run {execution.id!r} has the status {execution.status!r}"
            f"{' with another output' if has_other_output else f' and cannot become {status!r}'}",
            value=execution.id,
            remedy=Remedy("begin another one, or call {}", Verb("fork")),
        )


def _set_status(execution: Execution, status: str, changes: Mapping[str, Any]) -> Execution:
    now = max(clock.now(), execution.updated_at)
    ended_at = None if status in UNFINISHED else now
    values = {"status": status, "ended_at": ended_at, "updated_at": now, "version": execution.version + 1, **changes}
    return validate_row(Execution, {**execution.__dict__, **values})


def _make_change(deps: RunDeps, before: Execution, after: Execution) -> list[Operation]:
    names = ("status", "ended_at", "updated_at", "error", "output")
    changes = {name: after.__dict__[name] for name in names}
    return [
        Patch(Execution, (before.organization_id, before.id), changes, before.version),
        *make_lines(deps, make_run_scope(after), after, "update", after.updated_at, {"status": after.status}),
    ]


def _close_open_cycle(deps: RunDeps, execution: Execution, status: str, error: str | None) -> list[Operation]:
    """Return the operations that store a result for the open proposal of a run that ends without one."""
    if status in UNFINISHED:
        return []
    cycle = find_last_cycle(deps.records, execution)
    if cycle is None or cycle.status != "running":
        return []
    content = {"error": {"message": error or f"the run was {status}"}, "status": status}
    return make_completion(deps, execution, cycle, make_result(cycle, content, max(clock.now(), cycle.updated_at)))


def finish_run(
    deps: RunDeps, scope: Scope, run_id: str, *, output: Any, summary: str | None, remember: bool
) -> Execution:
    """End a run as successful, and store how its task was done as a procedural memory in the same commit.

    Return a run that has succeeded with the same output as it is. Raise Conflict if a proposal has no result yet.
    """
    execution = require_run(deps.records, scope, run_id)
    if execution.status == "succeeded" and encode_json(execution.output) == encode_json(output):
        return execution
    history = load_history(deps.records, execution)
    procedure = draft_procedure(execution, history, summary) if remember else None
    finished_runs: list[Execution] = []  # one for each attempt to commit; the last attempt succeeds

    def make_operations() -> list[Operation]:
        current = require_run(deps.records, scope, run_id)
        _require_status(current, UNFINISHED, "succeeded")
        cycle = find_last_cycle(deps.records, current)
        if cycle is not None and cycle.status == "running":
            raise Conflict(
                f"cycle {cycle.cycle_index} of run {run_id!r} has no result yet",
                value=run_id,
                remedy=Remedy("call {} first, or {}", Verb("complete"), Verb("cancel")),
            )
        after = _set_status(current, "succeeded", {"output": output, "error": None})
        finished_runs.append(after)
        return _make_change(deps, current, after)

    items = [procedure] if procedure is not None else []
    deps.remember(make_run_scope(execution), items, cycle_id=None, make_further=make_operations)
    return finished_runs[-1]
