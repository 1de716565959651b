"""Chooses the embedding models of an engine: the caller's, those of the settings, or the store's own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.caller_embedder import CallerEmbedder
from everhold.adapters.minilm import MiniLM
from everhold.errors import InvalidSettings, MissingExtra, ModelError, ModelNotFound
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.records import Records
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.ports.tokenizer import Tokenizer
from everhold.settings import DEFAULT_MODEL, Settings
from everhold.text.estimated_tokens import EstimatedTokenizer
from everhold.upkeep.serving import Model, WordsOnly, known_models

if TYPE_CHECKING:
    from everhold.adapters.openai import OpenAIEmbedder


class EmbeddingParts(NamedTuple):
    """An embedder, and what comes with its model: how it counts tokens, and which words it knows to mean the same."""

    embedder: Embedder
    tokenizer: Tokenizer
    thesaurus: Thesaurus = NO_THESAURUS


class MissingEmbedder:
    """Stands in for the store's model if nobody has said how to ask it: every text it is asked is refused.

    So a program that forgot its embedder does not embed the whole store again by the default model, and whatever needs
    no vectors goes on working: get, list, export, doctor.
    """

    def __init__(self, model: Model) -> None:
        self._known = model

    @property
    def model(self) -> str:
        return self._known.name

    @property
    def dimensions(self) -> int:
        return self._known.dimensions

    @property
    def problem(self) -> str:
        """What is missing, and what to do."""
        return (
            f"this store is embedded by model {self.model!r} ({self.dimensions} dimensions), which was not given; "
            "open the store with embedder=… or the setting embedding.url, or set embedding.model to embed everything "
            "again by another model"
        )

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        raise ModelNotFound(self.problem)


def make_caller_embedder(embedder: Embedder) -> EmbeddingParts:
    """Return the parts around an embedder that the caller passed."""
    checked = CallerEmbedder(embedder)
    return EmbeddingParts(checked, checked.tokenizer)


def make_embedder(settings: Settings) -> EmbeddingParts:
    """Return the parts of the model that the settings name."""
    chosen = settings.embedding
    if chosen.url is not None:
        remote = make_remote(settings, chosen.model, chosen.dimensions)
        return EmbeddingParts(remote, remote)
    if chosen.model != DEFAULT_MODEL:
        raise InvalidSettings(
            f"no embedding model {chosen.model!r}; use {DEFAULT_MODEL!r}, set embedding.url, or pass embedder=…"
        )
    model = MiniLM(chosen.path, data=settings.data, cache=settings.cache)
    return EmbeddingParts(model, model, model.thesaurus)


def find_missing_embedder(settings: Settings, records: Records) -> EmbeddingParts | None:
    """Return a stand-in if the store has a model of its own and the settings name none; None otherwise.

    The default model never takes the place of another just because nobody has said which one is meant.
    """
    chosen = settings.embedding
    if chosen.url is not None or "model" in chosen.model_fields_set:
        return None
    serving = next((model for model in known_models(records) if model.generation > 0), None)
    if serving is None or serving.name == chosen.model:
        return None
    return EmbeddingParts(MissingEmbedder(serving), EstimatedTokenizer())


def add_cache(settings: Settings, embedder: Embedder) -> Embedder:
    """Return the embedder with a cache of as many vectors as the settings say."""
    texts = settings.embedding.cache_texts
    return CachedEmbedder(embedder, texts) if texts and not isinstance(embedder, MissingEmbedder) else embedder


def make_former_embedder(settings: Settings, model: Model) -> Embedder:
    """Return the embedder of a model that still serves but is no longer chosen; words alone if it cannot be asked."""
    name, at, _ = model.name.rpartition("@")
    try:
        if at and settings.embedding.url is not None:
            return make_remote(settings, name, model.dimensions)
        if model.name == DEFAULT_MODEL:
            return MiniLM(None, data=settings.data, cache=settings.cache)
    except (ModelError, MissingExtra):
        return WordsOnly(model)
    return WordsOnly(model)


def make_remote(settings: Settings, model: str, dimensions: int) -> "OpenAIEmbedder":
    """Return the embedder of a model that is asked over HTTP."""
    from everhold.adapters.openai import OpenAIEmbedder  # needs an extra

    key = settings.embedding.api_key.get_secret_value() if settings.embedding.api_key else None
    return OpenAIEmbedder(settings.embedding.url or "", model, api_key=key, dimensions=dimensions)
