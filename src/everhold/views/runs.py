"""The verbs on the runs of a scope, and on memories about runs.

The modules that only these verbs need are imported inside them, because few processes use runs.
"""

from collections.abc import Sequence

import everhold
from everhold.arguments.checks import (
    Body,
    HitCount,
    Identifier,
    ListLength,
    MinimumScore,
    Question,
    ResultCount,
    StatusOfRun,
)
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import ModelError, NotFound
from everhold.model import Memory
from everhold.model.memory import LONG_TERM
from everhold.model.scope import SHORT_TERM
from everhold.recall.filters import make_filter
from everhold.recall.kinds import check_namespaces
from everhold.recall.pipeline import recall
from everhold.recall.recipe import MEANING
from everhold.recall.request import Request
from everhold.sessions.deletion import require_own_deletion
from everhold.sessions.messages import find_readable
from everhold.tenancy import deletion
from everhold.tenancy.deletion import Deleted
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView
from everhold.views.deletion import count_rows

# The minimum cosine of a task and an earlier task that is similar enough to show how to do it.
MIN_SIMILARITY = 0.25


@check_verbs
class RunVerbs(ScopedView):
    """The verbs that begin, read and delete the scope's runs."""

    @log_as("create")
    def run(
        self,
        task: Body,
        *,
        message: Identifier | None = None,
        id: Identifier | None = None,
        idempotency_key: Identifier | None = None,
    ) -> "everhold.Run":
        """Begin a run of a task and return it.

        With the `id` or the `idempotency_key` of an existing run of the same task, that run is returned, so that a
        program continues its run after a crash. `message` is the id of the message that asked for the task. Raise
        Conflict if the scope's agent is paused or terminated.
        """
        from everhold.runs.lifecycle import start_run
        from everhold.views.run import make_run_deps

        if message is not None and not find_readable(self._parts.session_deps, self.scope, [message]):
            raise NotFound(f"no message {message!r} in this scope", value=message, remedy="check its id")
        execution = start_run(
            make_run_deps(self._parts), self.scope, task, message_id=message, run_id=id, idempotency_key=idempotency_key
        )
        return self._open(execution)

    @log_as("update")
    def resume(self, run_id: Identifier | None = None) -> "everhold.Run":
        """Return an unfinished run, by default the latest, with the action to continue with in `pending`.

        A paused run is set to running. Raise NotFound if there is no such run; raise Conflict if the run has ended.
        """
        from everhold.runs.lifecycle import resume_run
        from everhold.views.run import make_run_deps

        execution = resume_run(make_run_deps(self._parts), self.scope, run_id)
        self._log_call("read", {"run": execution.id})
        return self._open(execution)

    @log_as("read")
    def get_run(self, run_id: Identifier) -> "everhold.Run":
        """Return a run of the scope with any status."""
        from everhold.runs.deps import require_run

        execution = require_run(self._parts.records, self.scope, run_id)
        self._log_call("read", {"run": run_id})
        return self._open(execution)

    @log_as("read")
    def runs(self, *, status: StatusOfRun | None = None, limit: ListLength = 50) -> "list[everhold.Execution]":
        """Return the scope's runs, latest first; with `status` only those that are running, paused, succeeded, …"""
        from everhold.runs.lifecycle import list_runs
        from everhold.views.run import make_run_deps

        statuses = () if status is None else (status,)
        rows = list_runs(make_run_deps(self._parts), self.scope, statuses=statuses, limit=limit)
        self._log_call("read", {"runs": len(rows)})
        return rows

    @log_as("delete")
    def delete_run(self, run_id: Identifier, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide a run with its cycles until `restore_run`. The memories derived in it stay.

        With `hard` it is purged; with `preview` its rows are only counted. Forks of the run lose the shared history.
        """
        from everhold.runs.deps import require_run

        records = self._parts.records
        execution = require_run(records, self.scope, run_id, deleted=hard)
        organization = execution.organization_id
        rows = count_rows(self._parts, "run", organization, run_id, hard=hard)
        if preview:
            self._log_call("read", {"run": run_id, "preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        line = self._make_line("delete", {"run": run_id, "hard": hard})
        deletion.delete(records, "run", organization, run_id, hard=hard, line=line)
        return Deleted(rows)

    @log_as("update")
    def restore_run(self, run_id: Identifier) -> "everhold.Run":
        """Restore a deleted run with exactly what its deletion hid."""
        from everhold.runs.deps import require_run

        records = self._parts.records
        execution = require_run(records, self.scope, run_id, deleted=True)
        if execution.deletion_id is not None:
            require_own_deletion(records, execution, "run")
        line = self._make_line("update", {"run": run_id, "restored": True})
        deletion.restore(records, "run", execution.organization_id, run_id, line)
        return self._open(require_run(records, self.scope, run_id))

    @log_as("search")
    def how_to(
        self, task: Question, *, k: HitCount = 3, minimum: MinimumScore = MIN_SIMILARITY
    ) -> "list[everhold.Procedure]":
        """Return how successful runs did similar tasks, the most similar task first."""
        from everhold.runs.procedures import read_procedure

        request = Request(task, k, make_filter(kind="procedural"), minimum=minimum, recipe=MEANING)
        hits = recall(self._parts.find_recall_deps(), self.scope, request)
        procedures = [procedure for hit in hits if (procedure := read_procedure(hit.memory, hit.score)) is not None]
        summary = {"k": k, "procedures": len(procedures), "length": len(task)}
        self._log_call("search", summary, [procedure.memory.id for procedure in procedures])
        return procedures

    @log_as("search")
    def recall_with_results(
        self,
        query: Question,
        *,
        k: HitCount = 10,
        results: ResultCount = 5,
        minimum: MinimumScore | None = None,
        namespace: str | Sequence[str] | None = (SHORT_TERM, LONG_TERM),
    ) -> "everhold.Recollections":
        """Return the memories that answer a question, best first, then the latest results of the scope's runs.

        Short-term and long-term memories are searched. If a returned memory was derived from one of these results, the
        result is returned together with the memory. If the embedding model does not answer, memories are ordered by
        their stored scores instead.
        """
        from everhold.runs.recollections import find_by_stored_score, find_recent_results, merge_results
        from everhold.views.run import make_run_deps

        namespaces = check_namespaces(namespace, ("memory",))
        request = Request(query, k, minimum=minimum, namespaces=namespaces)
        is_fallback = False
        try:
            hits = recall(self._parts.find_recall_deps(), self.scope, request)
            scored_memories: list[tuple[Memory, float | None]] = [(hit.memory, hit.score) for hit in hits]
        except ModelError:
            is_fallback = True
            scored_memories = find_by_stored_score(self._parts.records, self.scope, namespaces, k)
        steps = find_recent_results(make_run_deps(self._parts), self.scope, results)
        recollections = merge_results(scored_memories, steps, is_fallback=is_fallback)
        summary = {"k": k, "hits": len(scored_memories), "results": len(steps), "length": len(query)}
        self._log_call("search", summary, [memory.id for memory, _ in scored_memories])
        return recollections

    def _open(self, execution: "everhold.Execution") -> "everhold.Run":
        from everhold.runs.deps import make_run_scope
        from everhold.views.run import Run

        scope = make_run_scope(execution)
        # The scope of a run with a user reads all that the user may see. A view that is limited to one session must not
        # read more through a run, so the run is limited to the session too.
        return Run(self._parts, scope.confine() if "session_id" in self.scope.limits else scope, execution)


class AsyncRunVerbs(AsyncFacade):
    """The verbs of `RunVerbs`, awaited."""

    runs = Awaited(RunVerbs.runs)
    delete_run = Awaited(RunVerbs.delete_run)
    how_to = Awaited(RunVerbs.how_to)
    recall_with_results = Awaited(RunVerbs.recall_with_results)

    async def run(
        self, task: str, *, message: str | None = None, id: str | None = None, idempotency_key: str | None = None
    ) -> "everhold.AsyncRun":
        """Begin a run of a task and return it, as `RunVerbs.run` does."""
        begin = Awaited(RunVerbs.run).__get__(self, type(self))
        return self._wrap(await begin(task, message=message, id=id, idempotency_key=idempotency_key))

    async def resume(self, run_id: str | None = None) -> "everhold.AsyncRun":
        """Return a run that is not finished, by default the latest, as `RunVerbs.resume` does."""
        resume = Awaited(RunVerbs.resume).__get__(self, type(self))
        return self._wrap(await resume(run_id))

    async def get_run(self, run_id: str) -> "everhold.AsyncRun":
        """Return a run of the scope, with any status."""
        get = Awaited(RunVerbs.get_run).__get__(self, type(self))
        return self._wrap(await get(run_id))

    async def restore_run(self, run_id: str) -> "everhold.AsyncRun":
        """Restore a deleted run with exactly what its deletion hid."""
        restore = Awaited(RunVerbs.restore_run).__get__(self, type(self))
        return self._wrap(await restore(run_id))

    def _wrap(self, run: "everhold.Run") -> "everhold.AsyncRun":
        from everhold.views.run import AsyncRun

        return AsyncRun(run, self._pool)
