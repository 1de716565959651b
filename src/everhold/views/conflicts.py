"""The verbs on memories that contradict each other."""

from everhold.arguments.checks import Identifier, ListLength, MemoryId
from everhold.arguments.verbs import check_verbs, log_as
from everhold.remember.contradictions import MemoryConflict, list_conflicts, resolve_conflict
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView


@check_verbs
class ConflictVerbs(ScopedView):
    """The verbs on conflicts. Maintenance lists the conflicts that it cannot resolve, so that a person decides."""

    @log_as("read")
    def conflicts(self, *, limit: ListLength = 50) -> list[MemoryConflict]:
        """Return the listed conflicts between current memories of the scope, latest first."""
        conflicts = list_conflicts(self._parts.records, self.scope, limit)
        self._log_call("read", {"conflicts": len(conflicts)})
        return conflicts

    @log_as("update")
    def resolve_conflict(self, conflict_id: Identifier, *, keep: MemoryId | None = None) -> MemoryConflict:
        """Resolve a conflict: the memory `keep` supersedes the other one. Without `keep`, both memories are kept."""
        return resolve_conflict(self._parts.write_deps, self.scope, conflict_id, keep)


class AsyncConflictVerbs(AsyncFacade):
    """The verbs of `ConflictVerbs`, awaited."""

    conflicts = Awaited(ConflictVerbs.conflicts)
    resolve_conflict = Awaited(ConflictVerbs.resolve_conflict)
