"""The verbs on workspaces."""

from everhold.arguments.verbs import check_verbs
from everhold.views.awaited import AsyncFacade
from everhold.views.base import ScopedView


@check_verbs
class WorkspaceVerbs(ScopedView):
    """The scope's workspaces."""


class AsyncWorkspaceVerbs(AsyncFacade):
    """The verbs of `WorkspaceVerbs`, awaited."""
