"""The verbs on the state of the agent that a scope names."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from everhold.arguments.checks import Checked, make_integer_check
from everhold.arguments.verbs import check_verbs, log_as
from everhold.model import AgentState
from everhold.model.fields import MAX_INTEGER
from everhold.views.agents import make_agent_deps
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

StateVersion = Annotated[
    int, Checked(make_integer_check(0, MAX_INTEGER, "the version of the state that was read, or 0 if there was none"))
]


@check_verbs
class StateVerbs(ScopedView):
    """The verbs on the state of the scope's agent, for the scope's session, or for all sessions if it names none."""

    @log_as("read")
    def state(self) -> AgentState | None:
        """Return the agent's state for the scope's session, or for all sessions if the scope names none.

        None if the agent has no state, or if the state has expired.
        """
        from everhold.agents.states import find_state

        state = find_state(self._parts.records, self.scope)
        self._log_call("read", {"states": 0 if state is None else 1})
        return state

    @log_as("update")
    def set_state(
        self,
        value: Any,
        *,
        expires_at: datetime | None = None,
        ttl: timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: StateVersion | None = None,
    ) -> AgentState:
        """Store any JSON value as the agent's state, in place of an existing state.

        It is kept until `expires_at`, or for `ttl`, or without a limit of time. Raise StaleVersion if the version of
        the state is not `expected_version`; 0 means that there is no state. Without a version, the last writer wins. If
        `metadata` is None, the metadata does not change.
        """
        from everhold.agents.states import set_state

        return set_state(
            make_agent_deps(self._parts),
            self.scope,
            value,
            expires_at=expires_at,
            ttl=ttl,
            metadata=metadata,
            expected_version=expected_version,
        )

    @log_as("update")
    def update_state(self, changes: Mapping[str, Any], *, expected_version: StateVersion | None = None) -> AgentState:
        """Set some keys of a state that is a dictionary. Its other keys and its time of expiry do not change.

        Two callers that update different keys at once both succeed. Raise Conflict if the state is not a dictionary.
        """
        from everhold.agents.states import update_state

        return update_state(make_agent_deps(self._parts), self.scope, changes, expected_version)

    @log_as("delete")
    def clear_state(self, *, expected_version: StateVersion | None = None) -> bool:
        """Remove the agent's state and return whether there was one."""
        from everhold.agents.states import clear_state

        return clear_state(make_agent_deps(self._parts), self.scope, expected_version)


class AsyncStateVerbs(AsyncFacade):
    """The verbs of `StateVerbs`, awaited."""

    state = Awaited(StateVerbs.state)
    set_state = Awaited(StateVerbs.set_state)
    update_state = Awaited(StateVerbs.update_state)
    clear_state = Awaited(StateVerbs.clear_state)
