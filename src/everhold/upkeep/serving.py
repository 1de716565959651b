"""Which embedding model answers for a store.

Every model whose chunks the store may hold has a row among the projection states: `embedding/<model>`, with the
model's dimensions as its position. The row with the highest generation is the model that serves. A model being
prepared has generation 0; one that served before keeps its row until its chunks are gone. So one patch of one row is
the change from one model to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from everhold.errors import StoreReadOnly
from everhold.model import Chunk, Organization, ProjectionState
from everhold.model.housekeeping import EMBEDDING
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Patch, Where

_BESIDE = -1


@dataclass(frozen=True)
class Model:
    """A model that a store knows."""

    name: str
    dimensions: int
    generation: int = 0


class WordsOnly:
    """Stands in for an embedder that cannot be had: nothing it is asked has a vector, so that words alone decide."""

    def __init__(self, model: Model) -> None:
        self._known = model

    @property
    def model(self) -> str:
        return self._known.name

    @property
    def dimensions(self) -> int:
        return self._known.dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None for _ in texts]


def known_models(records: Records) -> list[Model]:
    """The models that have a row, the one that serves first."""
    rows = records.scan(ProjectionState, None)
    found = [
        Model(row.projection.removeprefix(EMBEDDING), row.applied_sequence, row.generation)
        for row in rows
        if row.projection.startswith(EMBEDDING)
    ]
    return sorted(found, key=lambda model: -model.generation)


def serving_model(records: Records, name: str, dimensions: int) -> Model:
    """The model that serves; for a store that has none yet, the one its chunks are of, or else the given one."""
    known = [model for model in known_models(records) if model.generation > 0]
    if known:
        return known[0]
    first = _model_of_chunks(records) or Model(name, dimensions, 1)
    try:
        records.commit([Ensure(_row(first)), _set(first, {"generation": first.generation})])
    except StoreReadOnly:
        return first
    return first


def _model_of_chunks(records: Records) -> Model | None:
    for organization in records.scan(Organization, None, deleted=True):
        for chunk in records.scan(Chunk, organization.id, [Where("dimensions", Op.GT, 0)], limit=1):
            return Model(chunk.model, chunk.dimensions, 1)
    return None


def prepare(model: Model) -> list[Operation]:
    """Makes a model known before its first chunk is written, so that its chunks are never without a row."""
    return [Ensure(_row(model))]


def serve(model: Model, after: Model, *, keep: bool = False) -> list[Operation]:
    """From this commit on, `model` serves; the one before it is deleted then, or with `keep` stays beside it."""
    served = _set(model, {"generation": after.generation + 1, "applied_sequence": model.dimensions})
    return [served, *(keep_beside(after) if keep else ())]


def keep_beside(model: Model) -> list[Operation]:
    """From this commit on, a model that does not serve is kept until `retire`, and may be searched by."""
    return [Ensure(_row(model)), _set(model, {"generation": _BESIDE})]


def retire(model: Model) -> list[Operation]:
    """From this commit on, the chunks of a model that was kept beside the serving one are to be deleted."""
    return [_set(model, {"generation": 0})]


def retired_models(records: Records) -> list[Model]:
    """Return the models that neither serve nor are kept beside the one that serves."""
    return [model for model in known_models(records)[1:] if model.generation != _BESIDE]


def forget(model: Model) -> list[Operation]:
    """The last of a model: its row."""
    return [Delete(ProjectionState, (EMBEDDING + model.name,))]


def _row(model: Model) -> ProjectionState:
    return ProjectionState(projection=EMBEDDING + model.name, applied_sequence=model.dimensions)


def _set(model: Model, changes: dict[str, int]) -> Patch:
    return Patch(ProjectionState, (EMBEDDING + model.name,), changes)
