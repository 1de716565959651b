"""Call a language model within a limit of time, and record the calls without their content."""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from everhold.background import BackgroundValue
from everhold.errors import ModelUnavailable
from everhold.interrupts import uninterrupted
from everhold.ports.language_model import LanguageModel

_MAX_OPEN_CALLS: Final = 4


@dataclass(frozen=True)
class SentPrompt:
    """A record of one sent prompt: its hash, and the number of tokens of the prompt and of the answer."""

    sha256: str
    tokens: int
    answer_tokens: int | None = None


@dataclass(frozen=True)
class ModelUse:
    """A record of the calls of a language model for one question, without their content.

    `outcome` is "proposed", "declined", "unusable", "empty" or "unavailable".
    """

    model: str
    prompts: tuple[SentPrompt, ...]
    sent_values: bool
    outcome: str

    def to_document(self) -> dict[str, Any]:
        """Return the record as a JSON object, for the query run and the access log."""
        return {**asdict(self), "prompts": [asdict(prompt) for prompt in self.prompts]}


class BoundedModel:
    """A language model with a limit of time for each call. It may be shared by threads.

    A call that takes longer continues in its thread until the model's own limit ends it. At most four calls are made at
    once, so that a model that hangs does not accumulate threads.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._lock, self._open_calls = threading.Lock(), 0

    @property
    def name(self) -> str:
        return self._model.name

    def complete(self, prompt: str, seconds: float) -> str:
        """Return the answer to a prompt.

        Raise ModelUnavailable if it takes longer than `seconds`, or if four calls are open.
        """
        with uninterrupted:
            if not self._try_begin_call():
                fact = f"{_MAX_OPEN_CALLS} questions wait for the model {self.name!r}"
                raise ModelUnavailable(fact, value=self.name, remedy="ask again later")
            answer = BackgroundValue("question to a language model", partial(self._complete, prompt), daemon=True)
        try:
            return answer.wait(seconds)
        except TimeoutError:
            fact = f"the model {self.name!r} did not answer within {seconds:.3g} seconds"
            raise ModelUnavailable(fact, value=self.name, remedy="raise `ask.llm_seconds`") from None

    def _try_begin_call(self) -> bool:
        with self._lock:
            is_free = self._open_calls < _MAX_OPEN_CALLS
            self._open_calls += is_free
            return is_free

    def _complete(self, prompt: str) -> str:
        try:
            return self._model.complete(prompt)
        finally:
            with self._lock:
                self._open_calls -= 1


class ModelCalls:
    """The calls for one question, which share one limit of time."""

    def __init__(self, model: BoundedModel, seconds: float, count_tokens: Callable[[str], int]) -> None:
        self._model, self._count_tokens = model, count_tokens
        self._deadline = time.monotonic() + seconds
        self.prompts: list[SentPrompt] = []

    def ask(self, prompt: str) -> str:
        """Return the answer to a prompt.

        Raise ModelUnavailable if the limit is reached; errors of the model are raised too.
        """
        digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
        sent = SentPrompt(digest, self._count_tokens(prompt))
        self.prompts.append(sent)
        answer = self._model.complete(prompt, max(0.0, self._deadline - time.monotonic()))
        self.prompts[-1] = SentPrompt(digest, sent.tokens, self._count_tokens(answer))
        return answer
