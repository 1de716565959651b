"""The verbs on tools."""

from everhold.arguments.verbs import check_verbs
from everhold.views.awaited import AsyncFacade
from everhold.views.base import ScopedView


@check_verbs
class ToolVerbs(ScopedView):
    """The scope's tools."""


class AsyncToolVerbs(AsyncFacade):
    """The verbs of `ToolVerbs`, awaited."""
