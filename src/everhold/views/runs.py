"""The verbs on runs."""

from everhold.arguments.verbs import check_verbs
from everhold.views.awaited import AsyncFacade
from everhold.views.base import ScopedView


@check_verbs
class RunVerbs(ScopedView):
    """The scope's runs."""


class AsyncRunVerbs(AsyncFacade):
    """The verbs of `RunVerbs`, awaited."""
