"""A chat endpoint that sends without end: byte by byte, or more than a chat completion can have."""

import pytest

from everhold.adapters.openai import ChatModel
from everhold.errors import ModelError, ModelUnavailable
from tests.http_endpoint import serve_parts


def test_a_response_that_trickles_in_is_abandoned() -> None:
    with serve_parts(b" ", 0.02) as url, pytest.raises(ModelUnavailable, match="the response took too long"):
        ChatModel(url, "m", api_key=None, timeout=0.3, retries=0).complete("hello")


def test_an_endless_response_is_refused() -> None:
    with serve_parts(b" " * 1_000_000, 0.0) as url, pytest.raises(ModelError, match="more than 8,000,000 bytes"):
        ChatModel(url, "m", api_key=None, timeout=30, retries=0).complete("hello")
