"""Decide which vectors of an import are kept: those that were made by one of the engine's own models."""

import numpy as np

from everhold.importers.records import Record
from everhold.ports.embedder import Vector
from everhold.remember.chunks import Chunking

# Two computations of the same model differ by rounding. Vectors of different models are nearly at right angles.
_SAME_MODEL = 0.98

ModelKey = tuple[str | None, int]


class VectorChoice:
    """Chooses the vectors of imported memories that can be kept, and counts the kept and the replaced ones.

    If an imported vector has the name of its model, it is kept if the engine has a model of that name and with that
    many dimensions. If it has no name, the text of the first such memory is embedded and the two vectors are compared.
    """

    def __init__(self, chunking: Chunking) -> None:
        self.kept = 0
        self.replaced = 0
        self._models = chunking.models
        self._model_by_key: dict[ModelKey, str | None] = {}

    def choose(self, record: Record) -> dict[str, Vector]:
        """Return a dictionary of the engine's model and the memory's vector; empty if the memory must be embedded."""
        vector = record.values.get("vector")
        if vector is None:
            return {}
        model = self._find_model(record, vector)
        return {} if model is None else {model: vector}

    def count(self, record: Record) -> None:
        """Count the memory's vector as kept or replaced."""
        if record.values.get("vector") is not None:
            if self.choose(record):
                self.kept += 1
            else:
                self.replaced += 1

    def _find_model(self, record: Record, vector: Vector) -> str | None:
        model_name = record.values.get("vector_model")
        key: ModelKey = (model_name, len(vector))
        if key not in self._model_by_key:
            self._model_by_key[key] = (
                self._find_by_name(str(model_name), vector) if model_name else self._find_by_embedding(record, vector)
            )
        return self._model_by_key[key]

    def _find_by_name(self, model_name: str, vector: Vector) -> str | None:
        short_name = model_name.rpartition("/")[2].lower()
        for name, chunking in self._models.items():
            if name.rpartition("/")[2].lower() == short_name and chunking.embedder.dimensions == len(vector):
                return name
        return None

    def _find_by_embedding(self, record: Record, vector: Vector) -> str | None:
        for name, chunking in self._models.items():
            if chunking.embedder.dimensions == len(vector):
                [computed] = chunking.embedder.embed([record.values["text"]])
                if computed is not None and float(np.dot(computed, vector) / np.linalg.norm(computed)) >= _SAME_MODEL:
                    return name
        return None
