"""Recall for an agent: memories found by meaning, together with the latest results of its actions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from everhold.model import Cycle, Execution, Memory, Scope
from everhold.model.page import ResultPage
from everhold.ports.records import Records
from everhold.runs.deps import RunDeps
from everhold.runs.lifecycle import list_runs
from everhold.runs.steps import RunStep, load_steps
from everhold.runs.stories import describe_outcome
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Op, Where

_MAX_RUNS = 20  # results come from the latest runs only
_MAX_SCORED = 1000  # the fallback ranks the latest memories only


@dataclass(frozen=True)
class Recollection:
    """A memory with its score, a result of an action, or both if the memory was derived from the result."""

    text: str
    score: float | None = None
    memory: Memory | None = None
    step: RunStep | None = None


@dataclass(frozen=True, repr=False)
class Recollections(ResultPage[Recollection]):
    """Memories, best first, then the latest results from which none of these memories was derived, newest first.

    `is_fallback` means that the embedding model did not answer and memories are ordered by their stored scores.
    """

    _items_field: ClassVar[str] = "items"

    items: tuple[Recollection, ...]
    is_fallback: bool = False


def find_recent_results(deps: RunDeps, scope: Scope, count: int) -> list[RunStep]:
    """Return the latest completed steps of the scope's runs, newest first."""
    steps: list[RunStep] = []
    for execution in list_runs(deps, scope, statuses=(), limit=_MAX_RUNS) if count else ():
        steps += _find_results(deps.records, execution, count)
    steps.sort(key=lambda step: step.cycle.updated_at, reverse=True)
    return steps[:count]


def _find_results(records: Records, execution: Execution, count: int) -> list[RunStep]:
    where = [Where("execution_id", Op.EQ, execution.id), Where("status", Op.NE, "running")]
    organization = execution.organization_id
    cycles = records.scan(Cycle, organization, where, order="cycle_index", descending=True, limit=count)
    return [step for step in load_steps(records, cycles) if step.result is not None]


def find_by_stored_score(
    records: Records, scope: Scope, namespaces: Sequence[str], count: int
) -> list[tuple[Memory, float | None]]:
    """Return memories of the scope ordered by their stored scores, then by importance.

    This is the fallback when the embedding model does not answer.
    """
    where = [*make_scope_conditions(scope), Where("namespace", Op.IN, list(namespaces))]
    rows = records.scan(Memory, scope.organization, where, order="created_at", descending=True, limit=_MAX_SCORED)
    rows.sort(key=lambda memory: (memory.score if memory.score is not None else 0.0, memory.importance), reverse=True)
    return [(memory, memory.score) for memory in rows[:count]]


def merge_results(
    hits: Sequence[tuple[Memory, float | None]], steps: Sequence[RunStep], *, is_fallback: bool
) -> Recollections:
    """Combine memories and results; a result from which a memory was derived is shown with that memory only."""
    steps_by_cycle = {step.cycle.id: step for step in steps}
    items = [
        Recollection(memory.text, score, memory, steps_by_cycle.pop(memory.cycle_id or "", None))
        for memory, score in hits
    ]
    items += [Recollection(describe_outcome(step), step=step) for step in steps_by_cycle.values()]
    return Recollections(tuple(items), is_fallback)
