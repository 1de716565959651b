"""The steps of opening an engine, in a module that imports little.

The embedding model begins to load here, so that it loads while the modules of the engine are imported.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from everhold import settings
from everhold.adapters.address import read_file, read_scheme
from everhold.exchange import places
from everhold.lazy_exports import ImportSection

if TYPE_CHECKING:
    from everhold.embedders import EmbeddingParts


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


def find_file(chosen: settings.Settings) -> Path | None:
    """Return the file of a store, or None if the store is not a file."""
    return read_file(chosen.storage).path if read_scheme(chosen.storage) in ("sqlite", "duckdb") else None
