"""The verbs on blocks."""

from everhold.arguments.verbs import check_verbs
from everhold.views.awaited import AsyncFacade
from everhold.views.base import ScopedView


@check_verbs
class BlockVerbs(ScopedView):
    """The scope's blocks."""


class AsyncBlockVerbs(AsyncFacade):
    """The verbs of `BlockVerbs`, awaited."""
