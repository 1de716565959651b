"""The embedding models of a store: which one serves, and the operations that change this.

Every model of which the store may have chunks has a row in the table of embedding models. Recall uses the one that
serves. A change of model is one commit: the status of the new model becomes `serving`, that of the old one `leaving`.
"""

from collections.abc import Sequence

from everhold.errors import StoreReadOnly
from everhold.model import Chunk, EmbeddingModel
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Patch, Where

# The order in which `list_models` returns models, by status.
_STATUS_ORDER = ("serving", "beside", "leaving", "building")


class WordsOnlyEmbedder:
    """Stands in for an embedder that is not available. It returns no vectors, so that recall searches by words only."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model

    @property
    def model(self) -> str:
        return self._model.name

    @property
    def dimensions(self) -> int:
        return self._model.dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None for _ in texts]


def list_models(records: Records) -> list[EmbeddingModel]:
    """Return the models that have a row, by status; the one that serves is first."""
    rows = records.scan(EmbeddingModel, None)
    return sorted(rows, key=lambda model: (_STATUS_ORDER.index(model.status), -model.generation))


def ensure_serving_model(records: Records, name: str, dimensions: int) -> EmbeddingModel:
    """Return the serving model. If there is none, let the model of the store's chunks serve, or else the named one."""
    serving = [model for model in list_models(records) if model.status == "serving"]
    if serving:
        return serving[0]
    name, dimensions = _find_chunk_model(records) or (name, dimensions)
    first = EmbeddingModel(name=name, dimensions=dimensions, status="serving", generation=1)
    try:
        # Another process may have stored this row with the status `building`. `Ensure` keeps that row, and the patch
        # makes its model serve.
        records.commit([Ensure(first), Patch(EmbeddingModel, (name,), {"status": "serving", "generation": 1})])
    except StoreReadOnly:
        return first
    return list_models(records)[0]


def _find_chunk_model(records: Records) -> tuple[str, int] | None:
    from everhold.model import Organization  # most stores know their model

    for organization in records.scan(Organization, None, deleted=True):
        # A chunk without a vector has 0 dimensions, which are not those of its model.
        for chunk in records.scan(Chunk, organization.id, [Where("dimensions", Op.GT, 0)], limit=1):
            return chunk.model, chunk.dimensions
    return None


def register_model(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that add a model's row. Commit them before the first chunk of the model is written."""
    return [Ensure(model)]


def switch_serving_model(
    model: EmbeddingModel, previous: EmbeddingModel, *, keep_previous: bool = False
) -> list[Operation]:
    """Return the operations that make `model` serve instead of `previous`.

    With `keep_previous`, recall can still search by the previous model; otherwise maintenance deletes its chunks.
    Committing raises StaleVersion if another process has changed the serving model.
    """
    changes = {"status": "serving", "generation": previous.generation + 1, "dimensions": model.dimensions}
    old_status = "beside" if keep_previous else "leaving"
    return [
        Patch(EmbeddingModel, (previous.name,), {"status": old_status}, version=previous.version),
        Patch(EmbeddingModel, (model.name,), changes),
    ]


def keep_model_beside(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that keep a model beside the serving one, so that recall can search by it too."""
    return [Ensure(model), Patch(EmbeddingModel, (model.name,), {"status": "beside"})]


def retire_model(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that mark a model as retired, so that maintenance deletes its chunks."""
    return [Patch(EmbeddingModel, (model.name,), {"status": "leaving"})]


def list_unused_models(records: Records) -> list[EmbeddingModel]:
    """Return the models that recall does not use: retired ones, and new ones that are not complete yet."""
    # The first model serves.
    return [model for model in list_models(records)[1:] if model.status != "beside"]


def delete_model(model: EmbeddingModel) -> list[Operation]:
    """Return the operations that delete a model's row. Commit them when no chunk of the model is left."""
    return [Delete(EmbeddingModel, (model.name,))]
