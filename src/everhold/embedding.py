"""Choose the embedding models of an engine: the caller's, those of the settings, or those recorded in the store."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.minilm import MiniLM
from everhold.embedders import EmbeddingParts, make_named_embedder, make_remote_embedder
from everhold.errors import (
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    ModelError,
    ModelNotFound,
    ModelUnavailable,
    StoreReadOnly,
    format_value,
)
from everhold.maintenance.serving import WordsOnlyEmbedder, keep_model_beside, list_models
from everhold.model import EmbeddingModel
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes
from everhold.ports.thesaurus import Thesaurus
from everhold.progress import ReportProgress, StepCounter, UnstoredProgress
from everhold.recall.images import ImageCache
from everhold.recall.request import RecallDeps
from everhold.remember.chunks import Chunking, make_chunks_for_model
from everhold.settings import Settings
from everhold.settings_sections import DEFAULT_MODEL
from everhold.text.estimated_tokens import EstimatedTokenizer

if TYPE_CHECKING:
    from everhold.maintenance.filling import Filling

# Texts that are embedded between two reports of progress: about a second's work.
_EMBEDDED_TOGETHER = 128


class MissingEmbedder:
    """Replaces the store's model if neither the caller nor the settings name it, and refuses every text.

    So a program that forgot its embedder does not embed the whole store again by the default model. Verbs that need no
    vectors still work: get, list, export, doctor.
    """

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model

    @property
    def model(self) -> str:
        return self._model.name

    @property
    def dimensions(self) -> int:
        return self._model.dimensions

    @property
    def problem(self) -> str:
        """A sentence that says which model is missing and what to do."""
        return (
            f"this store is embedded by model {self.model!r} ({self.dimensions} dimensions), which was not given; "
            "open the store with embedder=… or the setting embedding.url, or set embedding.model to embed everything "
            "again by another model"
        )

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        raise ModelNotFound.from_sentence(self.problem)


def make_caller_embedder(embedder: Embedder) -> EmbeddingParts:
    """Return the parts around an embedder that the caller passed."""
    from everhold.adapters.caller_embedder import CallerEmbedder

    checked = CallerEmbedder(embedder)
    return EmbeddingParts(checked, checked.tokenizer)


def find_missing_embedder(settings: Settings, records: Records) -> EmbeddingParts | None:
    """Return a MissingEmbedder if the store's model is not the default and the settings name no model, else None.

    The default model replaces a store's model only if the settings name it explicitly.
    """
    chosen = settings.embedding
    if chosen.url is not None or "model" in chosen.model_fields_set:
        return None
    serving = next((model for model in list_models(records) if model.status == "serving"), None)
    if serving is None or serving.name == chosen.model:
        return None
    return EmbeddingParts(MissingEmbedder(serving), EstimatedTokenizer())


def add_cache(settings: Settings, embedder: Embedder) -> Embedder:
    """Return the embedder with a cache of the size in the settings."""
    texts = settings.embedding.cache_texts
    return CachedEmbedder(embedder, texts) if texts and not isinstance(embedder, MissingEmbedder) else embedder


def make_former_embedder(settings: Settings, model: EmbeddingModel) -> Embedder:
    """Return the embedder of a model that still serves but is no longer chosen.

    If the model is not available, return a WordsOnlyEmbedder.
    """
    model_name, at_sign, _ = model.name.rpartition("@")
    try:
        if at_sign and settings.embedding.url is not None:
            return make_remote_embedder(settings.embedding, model_name, model.dimensions)
        if model.name == DEFAULT_MODEL:
            return MiniLM(None, data=settings.data, cache=settings.cache)
    except (ModelError, MissingExtra):
        return WordsOnlyEmbedder(model)
    return WordsOnlyEmbedder(model)


# the dependencies of recall


def make_recall_deps(
    settings: Settings, records: Records, candidates: SearchIndexes, embedder: Embedder, thesaurus: Thesaurus
) -> RecallDeps:
    """Return the dependencies of a recall by one model."""
    recall_records = candidates.records or records
    images = ImageCache(
        recall_records,
        embedder.model,
        embedder.dimensions,
        budget=settings.images.megabytes * 1_000_000,
        max_memories=settings.images.max_memories,
    )
    candidates.follow(embedder.model, embedder.dimensions)
    return RecallDeps(recall_records, embedder, images, candidates, thesaurus, ZoneInfo(settings.timezone))


# models beside the first one


class BesideModel(NamedTuple):
    """An additional model: the dependencies of a recall by it, and the thread that computes its missing vectors."""

    recall_deps: RecallDeps
    filling: "Filling"


def make_beside_embedders(settings: Settings) -> list[EmbeddingParts]:
    """Return the parts of the additional models that the setting `embedding.also` names."""
    return [make_named_embedder(settings, chosen) for chosen in settings.embedding.also]


def add_beside(settings: Settings, chunking: Chunking, beside: Sequence[EmbeddingParts]) -> Chunking:
    """Return a chunking that also makes chunks for the models in `beside`, which must have different names."""
    parts = [
        replace(chunking, embedder=add_cache(settings, model.embedder), tokenizer=model.tokenizer, also=())
        for model in beside
    ]
    names = [part.embedder.model for part in (chunking, *parts)]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSettings(
                f"two embedding models are named {name!r}", value=name, remedy="leave out one, or give it another name"
            )
    return replace(chunking, also=tuple(parts))


def prepare_beside(
    settings: Settings,
    first: RecallDeps,
    records: Records,
    chunking: Chunking,
    beside: Sequence[EmbeddingParts],
    is_changing: Callable[[], bool],
) -> dict[str, BesideModel]:
    """Return each of these models by name, ready for recall and for its fill."""
    models: dict[str, BesideModel] = {}
    if not beside:
        return models
    from everhold.maintenance.filling import Filling  # few processes keep several models

    stored_models = {model.name: model for model in list_models(records)}
    for part, model_parts in zip(chunking.also, beside, strict=True):
        embedder = part.embedder
        added_model = EmbeddingModel(name=embedder.model, dimensions=embedder.dimensions, status="beside")
        model = stored_models.get(embedder.model, added_model)
        if model.dimensions != embedder.dimensions:
            raise InvalidSettings(
                f"model {model.name!r} has {model.dimensions} dimensions in this store, and {embedder.dimensions} were "
                "given",
                value=model.name,
                remedy="vectors of one name are all alike, so give it another name",
            )
        recall_deps = make_recall_deps(settings, records, first.candidates, embedder, model_parts.thesaurus)
        filling = Filling(records, partial(make_chunks_for_model, chunking=part), model, is_changing=is_changing)
        models[model.name] = BesideModel(recall_deps, filling)
    return models


def mark_beside(records: Records, models: Mapping[str, BesideModel], serving: EmbeddingModel) -> None:
    """Record these models in the store as additional models, except the one that serves until a change is complete."""
    recorded_names = {model.name for model in list_models(records) if model.status == "beside"}
    missing = [model.filling.model for name, model in models.items() if name not in (serving.name, *recorded_names)]
    if missing:
        with suppress(StoreReadOnly):
            records.commit([operation for model in missing for operation in keep_model_beside(model)])


def find_recall_deps(
    model: str | None, first: RecallDeps, beside: Mapping[str, BesideModel], chosen: str
) -> RecallDeps:
    """Return the dependencies of a recall by a model.

    Raise InvalidInput for an unknown model, and ModelUnavailable while it has not embedded every memory.
    """
    if model is None or model == first.embedder.model:
        return first
    if model in beside:
        beside[model].filling.require_complete()
        return beside[model].recall_deps
    if model == chosen:
        raise ModelUnavailable(
            f"model {model!r} has not embedded every memory yet, and {first.embedder.model!r} serves until then",
            value=model,
            remedy="try again later",
        )
    names = [first.embedder.model, *beside]
    raise InvalidInput(
        f"no embedding model {format_value(model)} here",
        value=model,
        remedy=f"use one of {', '.join(map(repr, names))}",
    )


def report_embedding(chunking: Chunking, report: ReportProgress) -> Chunking:
    """Return a chunking whose embedders report their progress, about once per second or more often."""
    counter = StepCounter(report, "embedding", 0, UnstoredProgress)
    parts = [replace(part, embedder=_ReportingEmbedder(part.embedder, counter)) for part in (chunking, *chunking.also)]
    return replace(parts[0], also=tuple(parts[1:]))


class _ReportingEmbedder:
    """Embeds a few texts at a time and counts them."""

    def __init__(self, inner: Embedder, counter: StepCounter) -> None:
        self._inner, self._counter = inner, counter

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        vectors: list[Vector | None] = []
        self._counter.total = self._counter.done + len(texts)
        for start in range(0, len(texts), _EMBEDDED_TOGETHER):
            part = texts[start : start + _EMBEDDED_TOGETHER]
            vectors += self._inner.embed(part)
            self._counter.add(len(part))
        return vectors
