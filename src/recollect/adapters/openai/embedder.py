"""Vectors from any endpoint that speaks OpenAI's `/embeddings`."""

import random
import re
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import EmbedderUnavailable, InvalidSettings, MissingExtra, ModelError
from recollect.ports.embedder import Vector, half_precision

try:
    import httpx
except ImportError as missing:
    raise MissingExtra(
        "embedding over HTTP needs httpx, which is not installed; run `pip install 'recollect[openai]'`"
    ) from missing

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
"""Seconds. An endpoint that asks for more is, for the caller, unavailable."""

SPECIAL_TOKENS = 2
PIECE = re.compile(r"[A-Za-z0-9_]{1,4}|[^\sA-Za-z0-9_]")


class OpenAIEmbedder:
    """An `Embedder` over HTTP, and a careful `Tokenizer` for a model whose own one is not at hand.

    May be used by several threads at once. A request that fails for a passing reason is sent up to `retries`
    times more.
    """

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
        self._retries = retries
        self._url = url.rstrip("/").removesuffix("/embeddings") + "/embeddings"
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(headers=headers, timeout=timeout)

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._shown_url!r}, {self._model!r}, dimensions={self._dimensions})"

    @property
    def model(self) -> str:
        """The endpoint's name with the dimensions: one name stands for vectors that are all alike."""
        return f"{self._model}@{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def special_tokens(self) -> int:
        return SPECIAL_TOKENS

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Pieces of at most four ASCII letters or digits; every other character alone.

        Vocabularies differ, but English comes to four characters a token or more, and other scripts and signs
        rarely to more than one token a character. So this seldom counts fewer tokens than the model does, and
        a chunk stays within the model's limit at the cost of being somewhat smaller than it could be.
        """
        return [match.span() for match in PIECE.finditer(text)]

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        vectors: list[Vector | None] = [None] * len(texts)
        # Endpoints refuse blank texts, and with them the whole request.
        places = [place for place, text in enumerate(texts) if text and not text.isspace()]
        for begin in range(0, len(places), self._batch):
            batch = places[begin : begin + self._batch]
            rows = self._normalised(self._request([texts[place] for place in batch]))
            for place, row in zip(batch, rows, strict=True):
                vectors[place] = row
        return vectors

    def close(self) -> None:
        self._client.close()

    def _request(self, texts: list[str]) -> list[list[float]]:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        failure = ""
        for attempt in range(self._retries + 1):
            pause = FIRST_PAUSE * 2**attempt * random.uniform(0.75, 1.25)  # or many clients come back at once
            try:
                response = self._client.post(self._url, json=body)
            except httpx.TransportError as lost:
                failure = f"{type(lost).__name__}: {lost}"
            else:
                if not _is_passing(response.status_code):
                    return self._answer(response, len(texts))
                failure = f"status {response.status_code}"
                pause = _asked_pause(response) or pause
            if attempt < self._retries and pause <= LONGEST_PAUSE:
                time.sleep(pause)
            else:
                break
        raise EmbedderUnavailable(
            f"no vectors from {self._shown_url} after {attempt + 1} attempts, the last of which ended with"
            f" {self._without_key(failure)}; check that the endpoint is up, then try again"
        )

    def _answer(self, response: httpx.Response, expected: int) -> list[list[float]]:
        status = response.status_code
        if status in {401, 403}:
            raise InvalidSettings(f"{self._shown_url} refused the API key (status {status}); set `embedding.api_key`")
        if not response.is_success:
            raise ModelError(
                f"{self._shown_url} refused the model {self._model!r} or the texts (status {status});"
                f" it said: {self._without_key(response.text)[:300]}"
            )
        try:
            data: list[dict[str, Any]] = response.json()["data"]
            by_index = sorted(data, key=lambda row: int(row["index"]))
            rows = [[float(value) for value in row["embedding"]] for row in by_index]
        except (ValueError, KeyError, TypeError) as malformed:
            raise ModelError(
                f"{self._shown_url} answered something other than embeddings; check that `embedding.url` is"
                " the base of an OpenAI-compatible API"
            ) from malformed
        if len(rows) != expected:
            raise ModelError(f"{self._shown_url} answered {len(rows)} vectors for {expected} texts; check its version")
        return rows

    def _normalised(self, rows: list[list[float]]) -> NDArray[np.float32]:
        for row in rows:
            if len(row) != self._dimensions:
                raise InvalidSettings(
                    f"{self._model!r} makes vectors of {len(row)} dimensions, but {self._dimensions} are"
                    f" configured; set `embedding.dimensions` to {len(row)}"
                )
        matrix = np.array(rows, np.float64)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths) & (lengths > 0)):
            raise ModelError(f"{self._model!r} made a vector without a direction; check the endpoint's model")
        return half_precision(matrix / lengths)

    @property
    def _shown_url(self) -> str:
        return str(httpx.URL(self._url).copy_with(username=None, password=None, query=None))

    def _without_key(self, text: str) -> str:
        key = self._client.headers.get("Authorization", "").removeprefix("Bearer ")
        return text.replace(key, "…") if key else text


def _is_passing(status: int) -> bool:
    return status in {408, 429} or status >= 500


def _asked_pause(response: httpx.Response) -> float | None:
    """Seconds to wait as the endpoint asks, given as a number or as a date beside the date of its answer."""
    asked = response.headers.get("Retry-After", "").strip()
    if asked.isdigit():
        return float(asked)
    try:
        later = parsedate_to_datetime(asked) - parsedate_to_datetime(response.headers.get("Date", ""))
    except (ValueError, TypeError):
        return None
    return max(0.0, later.total_seconds())
