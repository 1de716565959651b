"""Make the embedders that the settings name.

This module imports little, so that a model can be loaded while the other parts of an engine are still imported.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from everhold.adapters.minilm import MiniLM
from everhold.errors import EverholdError, InvalidSettings, ModelNotFound
from everhold.ports.embedder import Embedder
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.ports.tokenizer import Tokenizer
from everhold.settings import Settings, name_setting
from everhold.settings_sections import DEFAULT_MODEL, EmbeddingModelSettings

if TYPE_CHECKING:
    from everhold.adapters.openai import OpenAIEmbedder


class EmbeddingParts(NamedTuple):
    """An embedder with the tokenizer and the thesaurus of its model."""

    embedder: Embedder
    tokenizer: Tokenizer
    thesaurus: Thesaurus = NO_THESAURUS


def begin_loading(settings: Settings) -> Callable[[], EmbeddingParts]:
    """Begin to load the first model that the settings name. Return a function that returns the model's parts.

    If the model cannot be loaded, only the returned function raises the error, because the store may use a different
    model.
    """
    try:
        parts = make_embedder(settings)
    except EverholdError as error:
        return partial(_raise, error)
    return lambda: parts


def _raise(error: EverholdError) -> NoReturn:
    raise error


def make_embedder(settings: Settings) -> EmbeddingParts:
    """Return the parts of the first model that the settings name."""
    return make_named_embedder(settings, settings.embedding)


def make_named_embedder(settings: Settings, chosen: EmbeddingModelSettings) -> EmbeddingParts:
    """Return the embedder, tokenizer and thesaurus of the model `chosen`, one of those that the settings name."""
    if chosen.url is not None:
        remote = make_remote_embedder(chosen, chosen.model, chosen.dimensions)
        return EmbeddingParts(remote, remote)
    if chosen.model != DEFAULT_MODEL:
        raise InvalidSettings(
            f"no embedding model {chosen.model!r}",
            value=chosen.model,
            remedy=f"use {DEFAULT_MODEL!r}, set embedding.url, or pass embedder=…",
        )
    try:
        model = MiniLM(chosen.path, data=settings.data, cache=settings.cache)
    except ModelNotFound as error:
        if chosen.path is not None:
            error.fact += f" ({name_setting('embedding.path', chosen.path)})"
        raise
    return EmbeddingParts(model, model, model.thesaurus)


def make_remote_embedder(chosen: EmbeddingModelSettings, model: str, dimensions: int) -> "OpenAIEmbedder":
    """Return the embedder of a model behind an HTTP endpoint."""
    from everhold.adapters.openai import OpenAIEmbedder  # needs an extra

    key = chosen.api_key.get_secret_value() if chosen.api_key else None
    return OpenAIEmbedder(chosen.url or "", model, api_key=key, dimensions=dimensions)


def install_model(settings: Settings, progress: Callable[[str], None] | None) -> Path:
    """Fetch and verify the weights of the default model, and return their folder."""
    from everhold.adapters.minilm.install import install  # few processes install

    return install(progress or (lambda _: None), data=settings.data)
