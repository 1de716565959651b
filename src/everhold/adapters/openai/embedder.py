"""Vectors from any endpoint that speaks OpenAI's `/embeddings`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.openai.endpoint import Endpoint
from everhold.errors import InvalidSettings, ModelError
from everhold.ports.embedder import Vector, round_to_half_precision
from everhold.text.estimated_tokens import EstimatedTokenizer


class OpenAIEmbedder(EstimatedTokenizer):
    """An `Embedder` over HTTP, and a `Tokenizer` that estimates. May be used by several threads at once."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None,
        dimensions: int,
        timeout: float = 30.0,
        batch: int = 256,
        retries: int = 3,
    ) -> None:
        """`url` is the base: `http://localhost:11434/v1`; `batch` is in texts, `timeout` in seconds."""
        self._model = model
        self._dimensions = dimensions
        self._batch = batch
        self._endpoint = Endpoint("embedding", url, "/embeddings", api_key=api_key, timeout=timeout, retries=retries)

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({str(self._endpoint)!r}, {self._model!r}, dimensions={self._dimensions})"

    @property
    def model(self) -> str:
        """The model's name with the number of dimensions. Vectors with the same name can be compared."""
        return f"{self._model}@{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        vectors: list[Vector | None] = [None] * len(texts)
        # Endpoints refuse blank texts, and with them the whole request.
        indexes = [index for index, text in enumerate(texts) if text and not text.isspace()]
        for start in range(0, len(indexes), self._batch):
            batch = indexes[start : start + self._batch]
            rows = self._normalise_vectors(self._request([texts[index] for index in batch]))
            for index, row in zip(batch, rows, strict=True):
                vectors[index] = row
        return vectors

    def close(self) -> None:
        self._endpoint.close()

    def _request(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts, in the same order. Raise ModelError if the answer is not one vector per text."""
        response = self._endpoint.post({"model": self._model, "input": texts, "encoding_format": "float"}, "vectors")
        if not response.is_success:
            raise ModelError(
                f"{self._endpoint} refused the model {self._model!r} or the texts (status {response.status_code})"
                f" and said: {self._endpoint.hide_key(response.text)[:300]}",
                value=self._model,
                remedy="check `embedding.url` and `embedding.model`",
            )
        try:
            data: list[dict[str, Any]] = response.json()["data"]
            by_index = sorted(data, key=lambda row: int(row["index"]))
            rows = [[float(value) for value in row["embedding"]] for row in by_index]
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"{self._endpoint} returned something other than embeddings",
                remedy="check that `embedding.url` is the base of an OpenAI-compatible API",
            ) from error
        if len(rows) != len(texts):
            raise ModelError(
                f"{self._endpoint} returned {len(rows)} vectors for {len(texts)} texts", remedy="check its version"
            )
        return rows

    def _normalise_vectors(self, rows: list[list[float]]) -> NDArray[np.float32]:
        """Return vectors as rows of length 1. Raise an error for a vector of wrong dimensions or of length 0."""
        for row in rows:
            if len(row) != self._dimensions:
                raise InvalidSettings(
                    f"{self._model!r} makes vectors of {len(row)} dimensions, but {self._dimensions} are configured",
                    value=self._model,
                    remedy=f"set `embedding.dimensions` to {len(row)}",
                )
        matrix = np.array(rows, np.float64)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths) & (lengths > 0)):
            raise ModelError(
                f"{self._model!r} returned a zero vector",
                value=self._model,
                remedy="check the endpoint's model",
            )
        return round_to_half_precision(matrix / lengths)
