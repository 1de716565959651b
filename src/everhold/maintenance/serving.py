"""Keep track of the embedding models of a store and of which one serves.

Every model whose chunks the store may hold has a row among the embedding models. One of them serves. A change of model
is one commit: the new model's row becomes `serving` and the old one's `leaving`.
"""

from collections.abc import Sequence

from everhold.errors import StoreReadOnly
from everhold.model import Chunk, EmbeddingModel, Organization
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Patch, Where

_ORDER = ("serving", "beside", "leaving", "building")


class WordsOnly:
    """Replaces an embedder that is not available: it returns no vectors, so recall uses words alone."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._known = model

    @property
    def model(self) -> str:
        return self._known.name

    @property
    def dimensions(self) -> int:
        return self._known.dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None for _ in texts]


def list_models(records: Records) -> list[EmbeddingModel]:
    """Return the models that have a row, the one that serves first."""
    rows = records.scan(EmbeddingModel, None)
    return sorted(rows, key=lambda model: (_ORDER.index(model.status), -model.generation))


def find_serving_model(records: Records, name: str, dimensions: int) -> EmbeddingModel:
    """Return the serving model; in a store without one, the model of its chunks, or else the given model."""
    known = [model for model in list_models(records) if model.status == "serving"]
    if known:
        return known[0]
    name, dimensions = _find_chunk_model(records) or (name, dimensions)
    first = EmbeddingModel(name=name, dimensions=dimensions, status="serving", generation=1)
    try:
        # Another process may have written the row as `building`; Ensure leaves it and the patch makes it serve.
        records.commit([Ensure(first), Patch(EmbeddingModel, (name,), {"status": "serving", "generation": 1})])
    except StoreReadOnly:
        return first
    return list_models(records)[0]


def _find_chunk_model(records: Records) -> tuple[str, int] | None:
    for organization in records.scan(Organization, None, deleted=True):
        # A chunk without a vector has 0 dimensions, so it says nothing about the size of the model.
        for chunk in records.scan(Chunk, organization.id, [Where("dimensions", Op.GT, 0)], limit=1):
            return chunk.model, chunk.dimensions
    return None


def make_building(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that make a model known, to be committed before its first chunk is written."""
    return [Ensure(model)]


def make_serving(model: EmbeddingModel, after: EmbeddingModel, *, keep: bool = False) -> list[Operation]:
    """Return the operations that let `model` serve instead of `after`, whose chunks are deleted unless `keep`.

    Committing them raises StaleVersion if another process has changed the serving model.
    """
    changes = {"status": "serving", "generation": after.generation + 1, "dimensions": model.dimensions}
    return [
        Patch(EmbeddingModel, (after.name,), {"status": "beside" if keep else "leaving"}, version=after.version),
        Patch(EmbeddingModel, (model.name,), changes),
    ]


def keep_beside(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that keep a model that does not serve, so that recall can search by it."""
    return [Ensure(model), Patch(EmbeddingModel, (model.name,), {"status": "beside"})]


def make_leaving(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that ask for the chunks of a model beside the serving one to be deleted."""
    return [Patch(EmbeddingModel, (model.name,), {"status": "leaving"})]


def list_retired_models(records: Records) -> list[EmbeddingModel]:
    """Return the models that neither serve nor are kept beside the one that serves."""
    return [model for model in list_models(records)[1:] if model.status != "beside"]


def remove_model(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that delete a model's row, to be committed when it has no chunks left."""
    return [Delete(EmbeddingModel, (model.name,))]
