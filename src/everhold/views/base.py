"""The base class of all verbs on a scope: it has the parts and the scope, and logs calls."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everhold import clock
from everhold.errors import Argument, EverholdError, InvalidInput, Remedy
from everhold.model import Scope
from everhold.model.access import AccessEvent, LoggedOperation, make_access_line
from everhold.model.fields import is_id
from everhold.schema.operations import Put

if TYPE_CHECKING:
    from everhold.parts import Parts

logger = logging.getLogger(__name__)


class ScopedView:
    """The base of the classes of verbs. It has the parts of an engine and the scope that the verbs read and write."""

    def __init__(self, parts: "Parts", scope: Scope) -> None:
        self._parts = parts
        self._slow_call_seconds = parts.settings.slow_call_seconds
        self.scope = scope

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scope.dimensions})"

    def _narrow(self, only: str | None) -> Scope:
        """Return the scope that a verb with the argument `only` reads.

        Raise InvalidInput if `only` is "session" and the scope names no session.
        """
        if only is None:
            return self.scope
        if self.scope.session is None:
            raise InvalidInput(
                "only='session' needs a session", remedy=Remedy("name one with {}", Argument("session", "ID"))
            )
        return self.scope.confine()

    def _log_call(
        self,
        operation: LoggedOperation,
        request: dict[str, Any],
        read_ids: Sequence[str] = (),
        memory_id: str | None = None,
    ) -> None:
        """Log a call that wrote nothing, and count each memory in `read_ids` as read.

        A call that writes is logged by a line in the same commit; see `_make_line`.
        """
        self._parts.access.add(AccessEvent(self.scope, operation, clock.now(), request, memory_id), read_ids)

    def _make_line(self, operation: LoggedOperation, request: dict[str, Any]) -> Put:
        """Return the operation that adds a line to the access log, to be committed with the change that it
        describes."""
        interface = self._parts.settings.interface
        return Put(make_access_line(self.scope, operation, clock.now(), request, interface=interface))

    def _log_slow_call(self, verb: str, seconds: float) -> None:
        """Warn about a call that took long. The boundary in `arguments/verbs.py` calls this, for failed calls too."""
        logger.warning("slow call: %s took %.3f s", verb, seconds)

    def _log_failure(self, operation: LoggedOperation, memory_id: object, error: EverholdError) -> None:
        """Log a call that failed. The boundary in `arguments/verbs.py` calls this for every verb with `log_as`."""
        # A value with spaces may be a sentence that was passed by mistake, and the log must have no texts.
        is_named = isinstance(memory_id, str) and is_id(memory_id) and " " not in memory_id
        request = {"memory": memory_id} if is_named else {}
        self._parts.access.add(AccessEvent(self.scope, operation, clock.now(), request, error=type(error).__name__))
