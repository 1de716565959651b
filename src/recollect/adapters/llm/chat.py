"""Answers from any endpoint that speaks OpenAI's `/chat/completions`."""

import random
import time

from recollect.errors import EmbedderUnavailable, InvalidSettings, MissingExtra, ModelError

try:
    import httpx
except ImportError as missing:
    raise MissingExtra(
        "a language model over HTTP needs httpx, which is not installed; run `pip install 'recollect[openai]'`"
    ) from missing

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
"""Seconds. An endpoint that asks for more is, for the caller, unavailable."""

_PATH = "/chat/completions"


class ChatModel:
    """A `LanguageModel` over HTTP. May be used by several threads at once.

    A request that fails for a passing reason is sent up to `retries` times more. Answers come seconds apart, so each
    has a connection of its own and nothing has to be closed.
    """

    def __init__(self, url: str, model: str, *, api_key: str | None, timeout: float = 120.0, retries: int = 2) -> None:
        """`url` is the base: `http://localhost:11434/v1`; `timeout` is in seconds."""
        self._url = url.rstrip("/").removesuffix(_PATH) + _PATH
        self._model = model
        self._key = (api_key or "").strip()
        self._timeout = timeout
        self._retries = retries
        self._check()

    def __repr__(self) -> str:
        return f"ChatModel({self._shown_url!r}, {self._model!r})"

    @property
    def name(self) -> str:
        return self._model

    def complete(self, prompt: str) -> str:
        body = {"model": self._model, "messages": [{"role": "user", "content": prompt}], "temperature": 0}
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        failure = ""
        for attempt in range(self._retries + 1):
            pause = FIRST_PAUSE * 2**attempt * random.uniform(0.75, 1.25)  # or many clients come back at once
            try:
                response = httpx.post(self._url, json=body, headers=headers, timeout=self._timeout)
            except httpx.RequestError as lost:
                failure = f"{type(lost).__name__}: {lost}"
            else:
                if not _is_passing(response.status_code):
                    return self._answer(response)
                failure = f"status {response.status_code}"
                pause = _asked_pause(response) or pause
            if attempt == self._retries or pause > LONGEST_PAUSE:
                break
            time.sleep(pause)
        raise EmbedderUnavailable(
            f"no answer from {self._shown_url} after {attempt + 1} attempts, the last of which ended with"
            f" {self._without_key(failure)}; check that the endpoint is up, then try again"
        )

    def _check(self) -> None:
        """What can never work is said before anybody waits for it."""
        try:
            scheme = httpx.URL(self._url).scheme
        except httpx.InvalidURL:
            scheme = ""
        if scheme not in {"http", "https"}:
            raise InvalidSettings("`llm.url` is no address; write it as http://localhost:11434/v1")
        if not (self._key.isascii() and self._key.isprintable()):
            raise InvalidSettings("`llm.api_key` holds characters that no header may have; copy it again")

    def _answer(self, response: httpx.Response) -> str:
        status = response.status_code
        if status in {401, 403}:
            raise InvalidSettings(f"{self._shown_url} refused the API key (status {status}); set `llm.api_key`")
        if not response.is_success:
            # What it says about the request is not shown: it may quote the messages.
            raise ModelError(
                f"{self._shown_url} refused the model {self._model!r} or the prompt (status {status});"
                " check `llm.url` and `llm.model`, or lower `llm.batch`"
            )
        try:
            said = response.json()["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError) as malformed:
            raise self._no_completion() from malformed
        if said is not None and not isinstance(said, str):
            raise self._no_completion()
        return said or ""

    def _no_completion(self) -> ModelError:
        return ModelError(
            f"{self._shown_url} answered something other than a chat completion; check that `llm.url` is the base"
            " of an OpenAI-compatible API"
        )

    @property
    def _shown_url(self) -> str:
        return str(httpx.URL(self._url).copy_with(username=None, password=None, query=None))

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def _is_passing(status: int) -> bool:
    return status in {408, 429} or status >= 500


def _asked_pause(response: httpx.Response) -> float | None:
    """Seconds to wait as the endpoint asks, if it asks in seconds."""
    asked = response.headers.get("Retry-After", "").strip()
    return float(asked) if asked.isascii() and asked.isdigit() else None
