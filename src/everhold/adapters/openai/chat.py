"""Answers from any endpoint that speaks OpenAI's `/chat/completions`."""

from everhold.adapters.openai.endpoint import Endpoint
from everhold.errors import ModelError

_MAX_BYTES = 8_000_000


class ChatModel:
    """A `LanguageModel` over HTTP."""

    def __init__(self, url: str, model: str, *, api_key: str | None, timeout: float = 120.0, retries: int = 2) -> None:
        """`url` is the base: `http://localhost:11434/v1`; `timeout` is in seconds."""
        self._model = model
        self._endpoint = Endpoint(
            "llm", url, "/chat/completions", api_key=api_key, timeout=timeout, retries=retries, max_bytes=_MAX_BYTES
        )

    def __repr__(self) -> str:
        return f"ChatModel({str(self._endpoint)!r}, {self._model!r})"

    @property
    def name(self) -> str:
        return self._model

    def complete(self, prompt: str) -> str:
        body = {"model": self._model, "messages": [{"role": "user", "content": prompt}], "temperature": 0}
        response = self._endpoint.post(body, "answer")
        if not response.is_success:
            # The server's message is not shown, because it may quote the messages of the request.
            raise ModelError(
                f"{self._endpoint} refused the model {self._model!r} or the prompt (status {response.status_code})",
                value=response.status_code,
                remedy="check `llm.url` and `llm.model`, or lower `llm.batch`",
            )
        try:
            content = response.json()["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
            raise self._make_completion_error() from error
        if content is not None and not isinstance(content, str):
            raise self._make_completion_error()
        return content or ""

    def _make_completion_error(self) -> ModelError:
        return ModelError(
            f"{self._endpoint} answered something other than a chat completion",
            remedy="check that `llm.url` is the base of an OpenAI-compatible API",
        )
