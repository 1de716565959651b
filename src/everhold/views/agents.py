"""The verbs on agents."""

from everhold.arguments.verbs import check_verbs
from everhold.views.awaited import AsyncFacade
from everhold.views.base import ScopedView


@check_verbs
class AgentVerbs(ScopedView):
    """The scope's agents."""


class AsyncAgentVerbs(AsyncFacade):
    """The verbs of `AgentVerbs`, awaited."""
