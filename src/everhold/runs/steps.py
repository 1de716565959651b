"""The steps of a run: its cycles with their proposals, results and memories."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from everhold.batches import split_into_batches
from everhold.errors import NotFound
from everhold.model import ActionProposal, ActionResult, Cycle, Execution, Memory
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

_BATCH = 500  # ids in one query


@dataclass(frozen=True, repr=False)
class RunStep:
    """One cycle of a run: the proposal and, once the cycle is complete, the result and the memories derived from it."""

    cycle: Cycle
    proposal: ActionProposal
    result: ActionResult | None = None
    memories: tuple[Memory, ...] = ()

    def __repr__(self) -> str:
        attempt = f", attempt={self.attempt}" if self.attempt > 1 else ""
        return f"{type(self).__name__}({self.cycle_index}, {self.tool!r}, {self.status}{attempt})"

    @property
    def cycle_index(self) -> int:
        return self.cycle.cycle_index

    @property
    def tool(self) -> str | None:
        return self.proposal.tool

    @property
    def arguments(self) -> dict[str, Any]:
        return self.proposal.arguments

    @property
    def idempotency_key(self) -> str:
        """The key to pass to the tool, so that it acts only once even if it is called again after a crash."""
        return self.proposal.idempotency_key or self.cycle.id

    @property
    def attempt(self) -> int:
        """The number of the attempt of the action, from 1."""
        return self.proposal.attempt

    @property
    def is_open(self) -> bool:
        """Whether the action has no result yet."""
        return self.result is None and self.cycle.status == "running"

    @property
    def status(self) -> str:
        """Running, succeeded, failed or cancelled."""
        return self.cycle.status if self.result is None else self.result.status

    @property
    def output(self) -> Any:
        return None if self.result is None else self.result.output

    @property
    def error(self) -> Any:
        return None if self.result is None else self.result.error


def find_last_cycle(records: Records, execution: Execution) -> Cycle | None:
    """Return the last cycle of a run, without the cycles that a fork shares with its parent run."""
    where = [Where("execution_id", Op.EQ, execution.id)]
    rows = records.scan(Cycle, execution.organization_id, where, order="cycle_index", descending=True, limit=1)
    return rows[0] if rows else None


def find_open_step(records: Records, execution: Execution) -> RunStep | None:
    """Return the step of a run whose action has no result yet, if there is one."""
    last = find_last_cycle(records, execution)
    return load_steps(records, [last])[0] if last is not None and last.status == "running" else None


def load_steps(records: Records, cycles: Sequence[Cycle], *, with_memories: bool = False) -> list[RunStep]:
    """Return the steps of these cycles, with the memories derived in them if `with_memories` is true."""
    if not cycles:
        return []
    organization, ids = cycles[0].organization_id, [cycle.id for cycle in cycles]
    proposals = {row.cycle_id: row for row in _scan(records, ActionProposal, organization, ids)}
    completed_ids = [cycle.id for cycle in cycles if cycle.status != "running"]
    results = {row.cycle_id: row for row in _scan(records, ActionResult, organization, completed_ids)}
    memories: dict[str | None, list[Memory]] = {}
    for memory in _scan(records, Memory, organization, ids) if with_memories else ():
        memories.setdefault(memory.cycle_id, []).append(memory)
    return [
        RunStep(
            cycle,
            proposals.get(cycle.id) or _make_blank_proposal(cycle),
            results.get(cycle.id),
            _sort_by_id(memories.get(cycle.id, ())),
        )
        for cycle in cycles
    ]


def _make_blank_proposal(cycle: Cycle) -> ActionProposal:
    """Return an empty proposal for an imported cycle that has none."""
    return ActionProposal(
        id=cycle.id,
        organization_id=cycle.organization_id,
        cycle_id=cycle.id,
        created_at=cycle.created_at,
        updated_at=cycle.updated_at,
    )


def _scan(records: Records, entity: Any, organization: str, cycle_ids: Sequence[str]) -> list[Any]:
    """Return the rows of an entity that belong to these cycles."""
    rows: list[Any] = []
    for batch in split_into_batches(cycle_ids, _BATCH):
        condition = Where("cycle_id", Op.EQ, batch[0]) if len(batch) == 1 else Where("cycle_id", Op.IN, batch)
        rows += records.scan(entity, organization, [condition])
    return rows


def _sort_by_id(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    return tuple(sorted(memories, key=lambda memory: memory.id))


def load_cycles(records: Records, execution: Execution) -> list[Cycle]:
    """Return all cycles of a run in order; those of a fork begin with the cycles that it shares with its parent run."""
    organization, run = execution.organization_id, execution
    last_index: int | None = None
    parts: list[list[Cycle]] = []
    seen_ids: set[str] = set()
    while run.id not in seen_ids:  # only an imported run can be its own ancestor
        seen_ids.add(run.id)
        limit_conditions: list[Where] = [] if last_index is None else [Where("cycle_index", Op.LE, last_index)]
        where = [Where("execution_id", Op.EQ, run.id), *limit_conditions]
        parts.append(records.scan(Cycle, organization, where, order="cycle_index"))
        if run.parent_id is None or run.fork_index is None:
            break
        # A fork of a fork may share fewer cycles with the first run than its parent run does.
        last_index = run.fork_index if last_index is None else min(last_index, run.fork_index)
        run = records.get(Execution, organization, [run.parent_id]).get(run.parent_id, run)
    return [cycle for part in reversed(parts) for cycle in part]


def load_history(records: Records, execution: Execution, *, with_memories: bool = False) -> list[RunStep]:
    """Return all steps of a run in order, including those that a fork shares with its parent run."""
    return load_steps(records, load_cycles(records, execution), with_memories=with_memories)


def require_cycle(records: Records, execution: Execution, cycle_index: int) -> Cycle:
    """Return the cycle of a run with this number; raise NotFound if there is none."""
    for cycle in load_cycles(records, execution):
        if cycle.cycle_index == cycle_index:
            return cycle
    raise NotFound(
        f"run {execution.id!r} has no cycle {cycle_index}", value=cycle_index, remedy="see the numbers in its story"
    )


def group_attempts(steps: Iterable[RunStep]) -> list[list[RunStep]]:
    """Group the steps by action, in order: each group has all attempts of one action."""
    groups: list[list[RunStep]] = []
    for step in steps:
        if groups and step.attempt > 1 and step.cycle.parent_id == groups[-1][-1].cycle.id:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups
