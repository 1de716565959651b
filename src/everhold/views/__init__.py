"""The verbs on one scope's data, one class per capability; `View` combines them."""

from everhold.views.view import AsyncView, View

__all__ = ["AsyncView", "View"]
