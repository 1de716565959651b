"""The embedder of OpenAI-compatible endpoints, tested on a real HTTP server that can fail as endpoints do."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from everhold.adapters.openai.embedder import OpenAIEmbedder
from everhold.errors import InvalidSettings, ModelError, ModelUnavailable
from tests.http_endpoint import Answer, HttpEndpoint

KEY = "sk-very-secret"


class EmbeddingEndpoint(HttpEndpoint):
    """Answers requests with what `script` says, then with vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Answer] = []

    def answer(self, body: dict[str, Any]) -> Answer:
        if self.script:
            return self.script.pop(0)
        rows = [{"index": index, "embedding": [float(len(text)), 1.0, 0.0]} for index, text in enumerate(body["input"])]
        return 200, {}, {"data": rows[::-1]}


@pytest.fixture
def endpoint() -> Iterator[EmbeddingEndpoint]:
    with EmbeddingEndpoint.serve() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr("everhold.retries.time.sleep", pauses.append)
    return pauses


@pytest.fixture
def embedder(endpoint: EmbeddingEndpoint) -> Iterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder(endpoint.url, "small", api_key=KEY, dimensions=3, batch=4)
    yield embedder
    embedder.close()


def test_vectors_are_in_the_order_of_the_texts_for_any_order_of_the_answer(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder
) -> None:
    texts = ["x" * length for length in (5, 1, 9, 2, 7, 3)]
    vectors = embedder.embed(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert vector is not None
        assert vector[0] / vector[1] == pytest.approx(len(text), rel=1e-2)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)
        assert np.array_equal(vector, vector.astype(np.float16).astype(np.float32))
    assert [len(request["input"]) for request in endpoint.requests] == [4, 2]
    assert endpoint.requests[0]["model"] == "small"
    assert endpoint.requests[0]["path"] == "/v1/embeddings"
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_blank_texts_are_not_sent(endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder) -> None:
    vectors = embedder.embed(["", "text", "  \n"])
    assert [vector is None for vector in vectors] == [True, False, True]
    assert endpoint.requests[0]["input"] == ["text"]
    assert embedder.embed([" "]) == [None]
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_temporary_failures_are_retried(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder, pauses: list[float], status: int
) -> None:
    endpoint.script = [(status, {}, {"error": "busy"})] * 2
    (vector,) = embedder.embed(["text"])
    assert vector is not None
    assert len(endpoint.requests) == 3
    assert 0 < pauses[0] < pauses[1]


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "7"},
        {"Retry-After": "Wed, 01 Jan 2031 00:00:07 GMT", "Date": "Wed, 01 Jan 2031 00:00:00 GMT"},
    ],
)
def test_a_retry_waits_as_long_as_the_endpoint_asks(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder, pauses: list[float], headers: dict[str, str]
) -> None:
    endpoint.script = [(429, headers, {})]
    embedder.embed(["text"])
    assert pauses == [7]


def test_a_retry_does_not_wait_for_hours(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder, pauses: list[float]
) -> None:
    endpoint.script = [(429, {"Retry-After": "7200"}, {})]
    with pytest.raises(ModelUnavailable, match="1 attempt"):
        embedder.embed(["text"])
    assert pauses == []


def test_after_the_last_retry_an_error_is_raised(endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder) -> None:
    endpoint.script = [(500, {}, {"error": KEY})] * 10
    with pytest.raises(ModelUnavailable, match=r"after 4 attempts.*status 500") as caught:
        embedder.embed(["text"])
    assert caught.value.retryable
    assert KEY not in str(caught.value)


def test_an_endpoint_that_does_not_answer_is_unavailable(pauses: list[float]) -> None:
    embedder = OpenAIEmbedder("http://user:pass@127.0.0.1:9/v1", "small", api_key=KEY, dimensions=3, retries=1)
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:9/v1/embeddings after 2 attempts") as caught:
        embedder.embed(["text"])
    assert "pass" not in str(caught.value)
    assert len(pauses) == 1


def test_the_error_about_a_refused_key_does_not_show_the_key(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder
) -> None:
    endpoint.script = [(401, {}, {"error": f"Incorrect API key provided: {KEY}"})]
    with pytest.raises(InvalidSettings, match=r"refused the API key \(status 401\).*embedding\.api_key") as caught:
        embedder.embed(["text"])
    assert KEY not in str(caught.value)
    assert len(endpoint.requests) == 1


def test_other_refusals_quote_the_endpoint_without_the_key(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder
) -> None:
    endpoint.script = [(404, {}, {"error": f"no model 'small' for {KEY}"})]
    with pytest.raises(ModelError, match="no model 'small' for …") as caught:
        embedder.embed(["text"])
    assert KEY not in str(caught.value)


def test_an_error_about_wrong_dimensions_names_the_right_number(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder
) -> None:
    endpoint.script = [(200, {}, {"data": [{"index": 0, "embedding": [1.0, 0.0]}]})]
    with pytest.raises(InvalidSettings, match=r"2 dimensions, but 3.*set `embedding\.dimensions` to 2"):
        embedder.embed(["text"])


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        {"data": None},
        {"data": [{"index": 0}]},
        {"data": []},
        {"data": [{"index": 0, "embedding": [0.0, 0.0, 0.0]}]},
        {"data": [{"index": 0, "embedding": 5}]},
        {"data": [{"index": 0, "embedding": ["a", "b", "c"]}]},
        [],
    ],
)
def test_a_nonsensical_answer_raises_an_error_of_everhold(
    endpoint: EmbeddingEndpoint, embedder: OpenAIEmbedder, content: object
) -> None:
    endpoint.script = [(200, {}, content)]
    with pytest.raises(ModelError):
        embedder.embed(["text"])


def test_the_key_is_not_shown(embedder: OpenAIEmbedder) -> None:
    assert KEY not in repr(embedder)
    assert "small" in repr(embedder)


def test_texts_are_cut_into_pieces_within_the_limit(embedder: OpenAIEmbedder) -> None:
    text = "Internationally, กาแฟ"
    assert [text[start:end] for start, end in embedder.offsets(text)] == [
        "Inte", "rnat", "iona", "lly", ",", "ก", "า", "แ", "ฟ",
    ]  # fmt: skip
    assert (embedder.model, embedder.dimensions, embedder.special_tokens) == ("small@3", 3, 2)
