"""The steps of opening an engine, in a module that imports little.

The embedding model begins to load here, so that it loads while the modules of the engine are imported.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from everhold import settings
from everhold.adapters.address import read_file, read_scheme
from everhold.exchange import places
from everhold.lazy_exports import ImportSection

if TYPE_CHECKING:
    from everhold.embedders import EmbeddingParts
    from everhold.parts import Parts
    from everhold.ports.embedder import Embedder
    from everhold.views.recall import RecallVerbs


class Opening(NamedTuple):
    """The settings of an engine that is being opened, and a function that returns its embedding model.

    The function is None if the caller has passed an embedder.
    """

    settings: settings.Settings
    get_model: "Callable[[], EmbeddingParts] | None" = None


def begin_opening(
    target: str | Path | None, *, create: bool = True, has_embedder: bool = False, **fields: Any
) -> Opening:
    """Read the settings and begin to load the model. Without `create`, raise StoreMissing if there is no store."""
    chosen = settings.load(target, **fields)
    if not create:
        places.require_store_file(find_file(chosen))
    if has_embedder:
        return Opening(chosen)
    with ImportSection():
        from everhold.embedders import begin_loading
    return Opening(chosen, begin_loading(chosen))


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


def find_file(chosen: settings.Settings) -> Path | None:
    """Return the file of a store, or None if the store is not a file."""
    return read_file(chosen.storage).path if read_scheme(chosen.storage) in ("sqlite", "duckdb") else None
