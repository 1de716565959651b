"""Send requests to an OpenAI-compatible API, repeat them after transient failures, and translate error responses."""

import time
from email.utils import parsedate_to_datetime
from typing import Any

from everhold.errors import InvalidSettings, MissingExtra, ModelError, ModelUnavailable
from everhold.retries import RetryPolicy, TryAgain, retry

try:
    import httpx
except ImportError as error:
    raise MissingExtra(
        "a model over HTTP needs httpx, which is not installed", remedy="run `pip install 'everhold[openai]'`"
    ) from error

FIRST_PAUSE = 0.6  # seconds
# The longest pause in seconds. An endpoint that asks for a longer one counts as unavailable.
MAX_PAUSE = 60.0
# A response with more bytes is not read to its end: a server may send without end.
MAX_BYTES = 256_000_000


class Endpoint:
    """One URL of an API. It may be used by several threads at once. No error message contains the API key.

    `setting` is the name of the section of the settings that describes the endpoint, for error messages; `url` is the
    base of the API and `path` is appended to it; `timeout` is in seconds, and a response longer than `max_bytes` is
    refused.
    """

    def __init__(
        self,
        setting: str,
        url: str,
        path: str,
        *,
        api_key: str | None,
        timeout: float,
        retries: int,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._setting = setting
        self._timeout, self._max_bytes = timeout, max_bytes
        self._url = url.rstrip("/").removesuffix(path) + path
        self._key = (api_key or "").strip()
        self._policy = RetryPolicy(retries + 1, first_pause=FIRST_PAUSE, longest_pause=MAX_PAUSE)
        self._check_settings()
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.Client(headers=headers, timeout=timeout)

    def __str__(self) -> str:
        return str(httpx.URL(self._url).copy_with(username=None, password=None, query=None))

    def post(self, body: dict[str, Any], result_name: str) -> httpx.Response:
        """Send the body and return the response, whatever its status. Raise InvalidSettings for a refused key.

        A request that fails for a transient reason is sent up to `retries` times more. The value of ModelUnavailable is
        the last status, or the class name of the error if there was no response. `result_name` says in messages what
        was requested.
        """
        failure, attempts = "", 0
        value: str | int = ""

        def send(attempt: int) -> httpx.Response:
            nonlocal failure, attempts, value
            attempts = attempt + 1
            try:
                response = self._send(body)
            except httpx.RequestError as error:
                value = type(error).__name__
                failure = f"{value}: {error}"
                raise TryAgain(f"no response from {self}") from error
            if not _is_transient(response.status_code):
                return self._require_valid_key(response)
            value = response.status_code
            failure = f"status {value}"
            pause = _read_requested_pause(response) or None
            if pause is not None and pause > MAX_PAUSE:
                raise make_error()
            raise TryAgain(f"{failure} from {self}", pause=pause)

        def make_error(_: Exception | None = None) -> ModelUnavailable:
            return ModelUnavailable(
                f"no {result_name} from {self} after {attempts} attempts, the last of which ended with"
                f" {self.hide_key(failure)}",
                value=value,
                remedy="check that the endpoint is up, then try again",
            )

        return retry(f"get the {result_name}", send, self._policy, give_up=make_error)

    def _send(self, body: dict[str, Any]) -> httpx.Response:
        """Send a request and return the whole response. The time limit is for all of it, not for each part."""
        with self._client.stream("POST", self._url, json=body) as response:
            content, deadline = bytearray(), time.monotonic() + self._timeout
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > self._max_bytes:
                    raise ModelError(
                        f"{self} sent more than {self._max_bytes:,} bytes", remedy=f"check `{self._setting}.url`"
                    )
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the response took too long")
        headers = {name: response.headers[name] for name in ("Retry-After", "Date") if name in response.headers}
        return httpx.Response(response.status_code, headers=headers, content=bytes(content))

    def hide_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text

    def close(self) -> None:
        self._client.close()

    def _check_settings(self) -> None:
        """Raise InvalidSettings for settings that can never work, before a request is sent."""
        try:
            scheme = httpx.URL(self._url).scheme
        except httpx.InvalidURL:
            scheme = ""
        if scheme not in {"http", "https"}:
            raise InvalidSettings(
                f"`{self._setting}.url` is not an address", remedy="write it as http://localhost:11434/v1"
            )
        if not (self._key.isascii() and self._key.isprintable()):
            raise InvalidSettings(
                f"`{self._setting}.api_key` holds characters that no header may have", remedy="copy it again"
            )

    def _require_valid_key(self, response: httpx.Response) -> httpx.Response:
        status = response.status_code
        if status in {401, 403}:
            raise InvalidSettings(
                f"{self} refused the API key (status {status})", remedy=f"set `{self._setting}.api_key`"
            )
        return response


def _is_transient(status: int) -> bool:
    return status in {408, 429} or status >= 500


def _read_requested_pause(response: httpx.Response) -> float | None:
    """Return how many seconds the Retry-After header asks to wait; None if it is missing or cannot be read.

    It has a number, or a date that is later than that of the Date header.
    """
    retry_after = response.headers.get("Retry-After", "").strip()
    if retry_after.isdigit():
        return float(retry_after)
    try:
        pause = parsedate_to_datetime(retry_after) - parsedate_to_datetime(response.headers.get("Date", ""))
    except (ValueError, TypeError):
        return None
    return max(0.0, pause.total_seconds())
