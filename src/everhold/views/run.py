"""The verbs on one run: propose and complete its cycles, end it, and read its history."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from everhold.arguments.checks import Body, CycleNumber, HitCount, Identifier, Question
from everhold.arguments.verbs import check_verbs, log_as
from everhold.model import Execution, Scope
from everhold.recall.hit import Hits
from everhold.recall.pipeline import recall
from everhold.recall.request import Request
from everhold.remember.pipeline import remember
from everhold.runs import cycles, lifecycle
from everhold.runs.comparing import RunComparison, compare_runs
from everhold.runs.deps import UNFINISHED, RunDeps, require_run
from everhold.runs.replay import StepRecording
from everhold.runs.steps import RunStep, find_open_step, load_history, require_cycle
from everhold.runs.stories import tell_story
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView
from everhold.views.run_steps import StepRecorder, record_awaited_calls, record_calls

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from everhold.parts import Parts

P = ParamSpec("P")
R = TypeVar("R")


def make_run_deps(parts: "Parts") -> RunDeps:
    """Return the parts that the verbs on runs use, made at each use, because a change of model replaces the
    embedder."""
    return RunDeps(parts.records, partial(remember, parts.write_deps), parts.settings.interface)


@check_verbs
class Run(ScopedView):
    """A run: each cycle is a proposed action and its result, stored before the next begins.

    `execution` is the run's row as it was last read, and `pending` the step whose action has no result yet. After a
    crash, `resume` of a view returns the run, with the step to continue with in `pending`. Only one process at a time
    may continue a run.
    """

    def __init__(self, parts: "Parts", scope: Scope, execution: Execution) -> None:
        super().__init__(parts, scope)
        self.execution = execution
        self.pending: RunStep | None = None
        if execution.status in UNFINISHED:
            self.pending = find_open_step(parts.records, execution)
        self._recorder = StepRecorder(self, self._load_recording)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.status})"

    @property
    def id(self) -> str:
        return self.execution.id

    @property
    def task(self) -> str:
        return self.execution.task

    @property
    def status(self) -> str:
        """Running, paused, succeeded, failed or cancelled, as it was last seen."""
        return self.execution.status

    @property
    def idempotency_key(self) -> str | None:
        """The idempotency key of the pending action, for its tool; None if no action is pending."""
        return None if self.pending is None else self.pending.idempotency_key

    @log_as("create")
    def propose(
        self,
        tool: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        thoughts: Body | None = None,
        reasoning: Body | None = None,
        plan: Sequence[Any] = (),
        criticism: Body | None = None,
        workspace_cues: Sequence[Any] = (),
        raw: Any = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> RunStep:
        """Begin the next cycle with an action and the reasons for it, and return the step.

        Perform the action with the step's `idempotency_key`, then call `complete`. While an action has no result,
        repeating its proposal returns the stored step, and another proposal raises Conflict. Conflict is also raised
        if the run is not running, or if its agent is paused or terminated. `snapshot` is data of the program with which
        it can continue from here.
        """
        content = {
            "tool": tool, "arguments": dict(arguments or {}), "thoughts": thoughts, "reasoning": reasoning,
            "plan": list(plan), "criticism": criticism, "workspace_cues": list(workspace_cues), "raw": raw,
        }  # fmt: skip
        self.execution, step = cycles.propose(self._deps, self.scope, self.id, content, snapshot or {})
        self.pending = step
        return step

    @log_as("update")
    def complete(
        self,
        output: Any = None,
        *,
        error: Any = None,
        summary: Body | None = None,
        artifacts: Sequence[str] = (),
        duration: float | None = None,
        memories: Sequence[Body | Mapping[str, Any]] = (),
    ) -> RunStep:
        """Store the result of the pending action, with the memories derived from it, in one commit.

        With an `error` the action has failed; the run continues. `memories` are texts or fields as for `remember_many`,
        such as {"kind": "reflection", "text": …}. Repeating the same result returns the stored step. Raise Conflict for
        another result.
        """
        content = {
            "output": output, "error": error, "summary": summary, "artifacts": list(artifacts),
            "duration": None if duration is None else float(duration),
        }  # fmt: skip
        step = cycles.complete(self._deps, self.scope, self.execution, content, memories, self.pending)
        self.pending = None
        return step

    @log_as("create")
    def retry(self) -> RunStep:
        """Propose the failed action with which the run ended again, as a new attempt with the same idempotency key."""
        self.execution, self.pending = cycles.retry_cycle(self._deps, self.scope, self.id)
        return self.pending

    @log_as("update")
    def finish(self, output: Any = None, *, summary: Body | None = None, remember: bool = True) -> Execution:
        """End the run as successful. The same commit stores a memory of how its task was done, which `how_to` finds.

        With `remember=False` no such memory is stored. Raise Conflict while an action has no result.
        """
        return self._update(
            lifecycle.finish_run(self._deps, self.scope, self.id, output=output, summary=summary, remember=remember)
        )

    @log_as("update")
    def fail(self, error: Body) -> Execution:
        """End the run as failed; `retry` continues it. A pending action becomes failed too."""
        return self._update(lifecycle.change_run(self._deps, self.scope, self.id, "failed", UNFINISHED, error=error))

    @log_as("update")
    def cancel(self, reason: Body | None = None) -> Execution:
        """Cancel the run permanently. A pending action is cancelled too."""
        return self._update(
            lifecycle.change_run(self._deps, self.scope, self.id, "cancelled", UNFINISHED, error=reason)
        )

    @log_as("update")
    def pause(self) -> Execution:
        """Pause the run: it takes no proposals until it is resumed. A pending action can still be completed."""
        pending = self.pending
        execution = self._update(lifecycle.change_run(self._deps, self.scope, self.id, "paused", ("running",)))
        self.pending = pending
        return execution

    @log_as("create")
    def fork(self, cycle_index: CycleNumber, *, task: Body | None = None, id: Identifier | None = None) -> "Run":
        """Begin a new run that shares this run's history up to a cycle, and return it.

        Pass an `id`, so that repeating the call returns the same run.
        """
        fork = lifecycle.fork_run(self._deps, self.scope, self.id, cycle_index, task=task, fork_id=id)
        return Run(self._parts, self.scope, fork)

    @log_as("read")
    def steps(self) -> list[RunStep]:
        """Return all steps of the run in order, with the memories derived in each.

        A fork's shared steps are included.
        """
        execution = require_run(self._parts.records, self.scope, self.id)
        steps = load_history(self._parts.records, execution, with_memories=True)
        self._log_call("read", {"run": self.id, "steps": len(steps)})
        return steps

    @log_as("read")
    def story(self, *, timezone: str | None = None) -> str:
        """Return the run as a text: each action with its reasons, its result and the memories derived from it."""
        from everhold.context.providers import choose_zone  # few processes call `story`

        records = self._parts.records
        zone = choose_zone(records, self.scope, timezone, self._parts.settings.timezone)
        execution = require_run(records, self.scope, self.id)
        steps = load_history(records, execution, with_memories=True)
        self._log_call("read", {"run": self.id, "steps": len(steps)})
        return tell_story(execution, steps, zone)

    @log_as("read")
    def compare(self, other_run: Identifier) -> RunComparison:
        """Return this run and another one of the scope side by side, step by step."""
        records = self._parts.records
        runs = [require_run(records, self.scope, run_id) for run_id in (self.id, other_run)]
        first, second = (load_history(records, execution) for execution in runs)
        self._log_call("read", {"run": self.id, "other": other_run})
        return compare_runs(runs[0], first, runs[1], second)

    @log_as("search")
    def known_at(self, cycle_index: CycleNumber, query: Question, *, k: HitCount = 10) -> Hits:
        """Recall with a question as of the time when a cycle began, in the scope of the run."""
        records = self._parts.records
        cycle = require_cycle(records, require_run(records, self.scope, self.id), cycle_index)
        request = Request(query, k, as_of=cycle.created_at)
        hits = recall(self._parts.find_recall_deps(), self.scope, request)
        summary = {"k": k, "hits": len(hits), "length": len(query), "run": self.id}
        self._log_call("search", summary, [hit.record.id for hit in hits])
        return hits

    def step(self, function: Callable[P, R]) -> Callable[P, R]:
        """Make every call of a function a step of the run: `@run.step`.

        Calls are recorded in order. When the program runs again, a call that had returned is not made again: its result
        is read from the run. A call that was interrupted is made again; if the function has a parameter
        `idempotency_key`, it gets the same key both times. Arguments and results must be JSON. Raise Conflict if the
        program makes calls that differ from the recorded ones.
        """
        return record_calls(self._recorder, function)

    @property
    def _deps(self) -> RunDeps:
        return make_run_deps(self._parts)

    def _update(self, execution: Execution) -> Execution:
        self.execution, self.pending = execution, None
        return execution

    def _load_recording(self) -> StepRecording:
        return StepRecording(self._parts.records, self.execution)


class AsyncRun(AsyncFacade):
    """The verbs of `Run`, awaited."""

    def __init__(self, run: Run, pool: "ThreadPoolExecutor") -> None:
        super().__init__(run, pool)
        self.scope = run.scope
        self._sync = run

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.status})"

    @property
    def execution(self) -> Execution:
        """The run's row as it was last seen."""
        return self._sync.execution

    @property
    def pending(self) -> RunStep | None:
        """The step whose action has no result yet."""
        return self._sync.pending

    @property
    def id(self) -> str:
        return self._sync.id

    @property
    def task(self) -> str:
        return self._sync.task

    @property
    def status(self) -> str:
        """Running, paused, succeeded, failed or cancelled, as it was last seen."""
        return self._sync.status

    @property
    def idempotency_key(self) -> str | None:
        """The idempotency key of the pending action, for its tool; None if no action is pending."""
        return self._sync.idempotency_key

    propose = Awaited(Run.propose)
    complete = Awaited(Run.complete)
    retry = Awaited(Run.retry)
    finish = Awaited(Run.finish)
    fail = Awaited(Run.fail)
    cancel = Awaited(Run.cancel)
    pause = Awaited(Run.pause)
    steps = Awaited(Run.steps)
    story = Awaited(Run.story)
    compare = Awaited(Run.compare)
    known_at = Awaited(Run.known_at)

    async def fork(self, cycle_index: int, *, task: str | None = None, id: str | None = None) -> "AsyncRun":
        """Begin another run that shares this one's history up to a cycle, and return it."""
        fork = Awaited(Run.fork).__get__(self, type(self))
        return AsyncRun(await fork(cycle_index, task=task, id=id), self._pool)

    def step(self, function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Make every call of a coroutine function, or of a plain one, a step of the run, as `Run.step` does."""
        return record_awaited_calls(self._sync._recorder, function, self._run)
