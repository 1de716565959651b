"""Search a store without the class of the engine, which a short process imports much more slowly.

What is imported here is imported while the embedding model loads.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from everhold import settings
from everhold.lazy_exports import ImportSection
from everhold.opening import Opening

if TYPE_CHECKING:
    from everhold.parts import Parts
    from everhold.ports.embedder import Embedder
    from everhold.views.recall import RecallVerbs


def build_parts(opening: Opening, embedder: "Embedder | None" = None, also: "Sequence[Embedder]" = ()) -> "Parts":
    """Return the parts of the engine that `begin_opening` began to open, with the caller's embedders."""
    with ImportSection():  # while the model loads
        from everhold.parts import build
    return build(opening.settings, embedder, also, opening.get_model)


def needs_engine(chosen: settings.Settings) -> bool:
    """Return whether an engine with these settings does more at its start than to build its parts."""
    return chosen.layout != "everhold" or chosen.maintenance.every_minutes is not None


def make_search_view(parts: "Parts", dimensions: Mapping[str, str | None]) -> "RecallVerbs":
    """Return only the verbs that search a scope. A short process imports them much faster than the class of the engine
    and all verbs of a view."""
    with ImportSection():
        from everhold.arguments.checks import Identifier
        from everhold.arguments.verbs import make_check
        from everhold.model.scope import Scope
        from everhold.model.validation import validate_row
        from everhold.views.recall import RecallVerbs
    check = make_check(Identifier)
    checked = {name: check(value, name) for name, value in dimensions.items() if value is not None}
    return RecallVerbs(parts, validate_row(Scope, checked))
