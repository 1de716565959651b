"""One cycle of a run: an action is proposed, then its result is stored.

    propose:  find the open proposal → take the agent's next number → commit cycle and proposal
    complete: find the open proposal → commit result, cycle and derived memories

Several processes may number the cycles of one agent at the same time. A unique rule gives each number to one of them;
the others read again and take the next one, so there are no gaps. A run has at most one proposal without a result,
because the commit of a proposal requires the version of the run that the caller read.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.errors import AlreadyExists, BrokenReference, Conflict, Remedy, StaleVersion, StoreBusy, Verb
from everhold.model import ActionProposal, ActionResult, Cycle, Execution, Scope
from everhold.model.validation import validate_row
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.runs.deps import RunDeps, make_lines, make_run_scope, require_active_agent, require_run, require_running
from everhold.runs.steps import RunStep, find_last_cycle, load_cycles, load_steps
from everhold.schema.codec import encode_json
from everhold.schema.operations import Op, Operation, Patch, Put, Where

PROPOSED = ("tool", "arguments", "thoughts", "reasoning", "plan", "criticism", "workspace_cues", "raw")
_REPORTED = ("summary", "output", "error", "artifacts")


def propose(
    deps: RunDeps, scope: Scope, run_id: str, content: Mapping[str, Any], snapshot: Mapping[str, Any]
) -> tuple[Execution, RunStep]:
    """Add a cycle with a proposed action to a run, and return both.

    If the run has the same proposal without a result, return that one. Raise Conflict if its open proposal is another.
    """
    return _retry(lambda: _propose(deps, scope, run_id, content, snapshot), run_id)


def _retry(step: Callable[[], tuple[Execution, RunStep]], run_id: str) -> tuple[Execution, RunStep]:
    busy = StoreBusy(f"run {run_id!r} kept changing while a cycle was added")
    return retry("add a cycle to a run", lambda _: step(), CONFLICTS, give_up=lambda _: busy)


def _propose(
    deps: RunDeps, scope: Scope, run_id: str, content: Mapping[str, Any], snapshot: Mapping[str, Any]
) -> tuple[Execution, RunStep]:
    execution = require_run(deps.records, scope, run_id)
    last_cycle = find_last_cycle(deps.records, execution)
    if last_cycle is not None and last_cycle.status == "running":
        return execution, _require_same_proposal(deps, execution, last_cycle, content)
    require_running(execution)
    parent_id = _find_forked_cycle(deps, execution) if last_cycle is None else None
    return _add_cycle(deps, execution, content, snapshot, parent_id=parent_id)


def _require_same_proposal(deps: RunDeps, execution: Execution, cycle: Cycle, content: Mapping[str, Any]) -> RunStep:
    step = load_steps(deps.records, [cycle])[0]
    now = step.cycle.created_at
    if not _is_same(step.proposal, make_proposal(cycle, content, now, None, 1), PROPOSED):
        raise Conflict(
            f"cycle {cycle.cycle_index} of run {execution.id!r} has a proposal without a result",
            value=execution.id,
            remedy=Remedy("perform that action and call {}, with an error if it is abandoned", Verb("complete")),
        )
    return step


def _is_same(stored: Any, new: Any, names: Sequence[str]) -> bool:
    """Return whether two rows have the same values, compared as JSON, because a store returns them read from JSON."""
    return all(encode_json(stored.__dict__[name]) == encode_json(new.__dict__[name]) for name in names)


def _find_forked_cycle(deps: RunDeps, execution: Execution) -> str | None:
    """Return the id of the last cycle that a fork shares with its parent run; None if the run is not a fork."""
    if execution.parent_id is None or execution.fork_index is None:
        return None
    cycles = load_cycles(deps.records, execution)
    return cycles[-1].id if cycles else None


def retry_cycle(deps: RunDeps, scope: Scope, run_id: str) -> tuple[Execution, RunStep]:
    """Propose the last action of a run again if it failed, as another attempt with the same idempotency key."""
    return _retry(lambda: _retry_cycle(deps, scope, run_id), run_id)


def _retry_cycle(deps: RunDeps, scope: Scope, run_id: str) -> tuple[Execution, RunStep]:
    """Begin a new cycle with the same action as the failed last cycle, and return the run and the new step.

    If an earlier call has begun it already, return that step.
    """
    execution = require_run(deps.records, scope, run_id)
    last_cycle = find_last_cycle(deps.records, execution)
    if last_cycle is None or last_cycle.status not in ("failed", "running"):
        raise Conflict(
            f"the last action of run {run_id!r} has not failed",
            value=run_id,
            remedy=Remedy("call {} from an earlier cycle", Verb("fork")),
        )
    failed_step = load_steps(deps.records, [last_cycle])[0]
    if failed_step.is_open:
        if failed_step.attempt > 1:
            return execution, failed_step  # a retried call
        raise Conflict(
            f"cycle {last_cycle.cycle_index} of run {run_id!r} has no result yet",
            value=run_id,
            remedy=Remedy("call {} first", Verb("complete")),
        )
    if execution.status != "failed":
        require_running(execution)
    content = {name: failed_step.proposal.__dict__[name] for name in PROPOSED}
    return _add_cycle(deps, execution, content, last_cycle.snapshot, parent_id=last_cycle.id, failed_step=failed_step)


def _add_cycle(
    deps: RunDeps,
    execution: Execution,
    content: Mapping[str, Any],
    snapshot: Mapping[str, Any],
    *,
    parent_id: str | None,
    failed_step: RunStep | None = None,
) -> tuple[Execution, RunStep]:
    require_active_agent(deps.records, execution.organization_id, execution.agent_id)
    now = max(clock.now(), execution.updated_at)
    index = _find_next_index(deps, execution)
    cycle = _make_cycle(execution, index, now, snapshot, parent_id)
    key = cycle.id if failed_step is None else failed_step.idempotency_key
    proposal = make_proposal(cycle, content, now, key, 1 if failed_step is None else failed_step.attempt + 1)
    changes: dict[str, Any] = {"updated_at": now}
    if execution.status == "failed":
        changes |= {"status": "running", "ended_at": None, "error": None}
    after = execution.evolve(**changes, version=execution.version + 1)
    operations: list[Operation] = [
        # The patch comes first, so that concurrent callers of one run fail on the version and not on the number.
        Patch(Execution, (execution.organization_id, execution.id), changes, execution.version),
        Put(cycle),
        Put(proposal),
        *make_lines(deps, make_run_scope(execution), after, "create", now, {"cycle": index, "tool": proposal.tool}),
    ]
    try:
        deps.records.commit(operations)
    except (AlreadyExists, StaleVersion, BrokenReference) as error:
        raise TryAgain("another writer took this number or changed the run") from error
    return after, RunStep(cycle, proposal)


def _find_next_index(deps: RunDeps, execution: Execution) -> int:
    """Return the number after the agent's last cycle; in a run without an agent, after the run's last cycle.

    Deleted cycles are included, because a restored cycle needs its number back.
    """
    is_of_agent = execution.agent_id is not None
    where = [
        Where("agent_id", Op.EQ, execution.agent_id) if is_of_agent else Where("execution_id", Op.EQ, execution.id)
    ]
    organization = execution.organization_id
    rows = deps.records.scan(Cycle, organization, where, order="cycle_index", descending=True, limit=1, deleted=True)
    if rows:
        return rows[0].cycle_index + 1
    # A fork continues the numbers of the cycles that it shares with its parent run.
    return 0 if is_of_agent or execution.fork_index is None else execution.fork_index + 1


def _make_cycle(
    execution: Execution, index: int, now: datetime, snapshot: Mapping[str, Any], parent_id: str | None
) -> Cycle:
    return validate_row(
        Cycle,
        {
            "id": clock.make_id("cyc"),
            "organization_id": execution.organization_id,
            "agent_id": execution.agent_id,
            "execution_id": execution.id,
            "cycle_index": index,
            "parent_id": parent_id,
            "snapshot": dict(snapshot),
            **_make_stamps(make_run_scope(execution).actor, now),
        },
    )


def make_proposal(
    cycle: Cycle, content: Mapping[str, Any], now: datetime, key: str | None, attempt: int
) -> ActionProposal:
    """Return the validated proposal of a cycle."""
    ids = {"id": clock.make_id("act"), "organization_id": cycle.organization_id, "cycle_id": cycle.id}
    stamps = _make_stamps(cycle.created_by_id, now)
    return validate_row(ActionProposal, {**content, **ids, **stamps, "idempotency_key": key, "attempt": attempt})


def _make_stamps(actor: str | None, now: datetime) -> dict[str, Any]:
    return {"created_at": now, "updated_at": now, "created_by_id": actor}


class _ResultExistsError(Exception):
    """Another writer has completed the cycle."""


def complete(
    deps: RunDeps,
    scope: Scope,
    execution: Execution,
    content: Mapping[str, Any],
    items: Sequence[str | Mapping[str, Any]],
    pending: RunStep | None,
) -> RunStep:
    """Store the result of the pending step of a run and the memories derived from it, in one commit.

    If the step has the same result already, return the step; raise Conflict if it has another result. If no step is
    pending, do the same with the run's last step.
    """
    if pending is None:
        return _require_same_result(deps, execution, _require_last_cycle(deps, scope, execution), content)
    cycle = pending.cycle
    result = make_result(cycle, content, max(clock.now(), cycle.updated_at))

    def make_operations() -> list[Operation]:
        current = deps.records.get(Cycle, cycle.organization_id, [cycle.id]).get(cycle.id)
        if current is None or current.status != "running":
            raise _ResultExistsError
        return make_completion(deps, execution, current, result)

    try:
        memories = deps.remember(make_run_scope(execution), items, cycle_id=cycle.id, make_further=make_operations)
    except _ResultExistsError:
        require_run(deps.records, scope, execution.id)
        return _require_same_result(deps, execution, cycle, content)
    completed_cycle = cycle.evolve(status=result.status, updated_at=result.created_at, version=cycle.version + 1)
    return RunStep(completed_cycle, pending.proposal, result, tuple(memories))


def _require_last_cycle(deps: RunDeps, scope: Scope, execution: Execution) -> Cycle:
    """Return the last cycle of a run; raise NotFound if the run is gone, Conflict if nothing was proposed."""
    require_run(deps.records, scope, execution.id)
    cycle = find_last_cycle(deps.records, execution)
    if cycle is None:
        raise Conflict(
            f"run {execution.id!r} has no proposal",
            value=execution.id,
            remedy=Remedy("call {} first", Verb("propose")),
        )
    return cycle


def make_completion(deps: RunDeps, execution: Execution, cycle: Cycle, result: ActionResult) -> list[Operation]:
    """Return the operations that store the result of a cycle. A unique rule refuses a second result."""
    now = result.created_at
    changes = {"status": result.status, "updated_at": now}
    request = {"cycle": cycle.cycle_index, "status": result.status}
    return [
        Put(result),
        Patch(Cycle, (cycle.organization_id, cycle.id), changes, cycle.version),
        *make_lines(deps, make_run_scope(execution), execution, "update", now, request),
    ]


def make_result(cycle: Cycle, content: Mapping[str, Any], now: datetime) -> ActionResult:
    """Return the validated result of a cycle: failed if there is an error, otherwise succeeded."""
    status = "failed" if content.get("error") is not None else "succeeded"
    ids = {"id": clock.make_id("res"), "organization_id": cycle.organization_id, "cycle_id": cycle.id}
    stamps = _make_stamps(cycle.created_by_id, now)
    return validate_row(ActionResult, {"status": status, **content, **ids, **stamps})


def _require_same_result(deps: RunDeps, execution: Execution, cycle: Cycle, content: Mapping[str, Any]) -> RunStep:
    """Return the step of a completed cycle if it has the reported result; raise Conflict if it has a different one."""
    current = deps.records.get(Cycle, cycle.organization_id, [cycle.id]).get(cycle.id, cycle)
    [step] = load_steps(deps.records, [current], with_memories=True)
    result = step.result
    if step.is_open:
        raise Conflict(
            f"cycle {cycle.cycle_index} of run {execution.id!r} was proposed by another process",
            value=execution.id,
            remedy=Remedy("call {} to continue it", Verb("resume")),
        )
    if result is None or not _is_same(result, make_result(cycle, content, result.created_at), _REPORTED):
        raise Conflict(
            f"no proposal of run {execution.id!r} waits for a result; cycle {cycle.cycle_index} has {step.status}",
            value=execution.id,
            remedy=Remedy("call {} for the next action", Verb("propose")),
        )
    return step
