"""Ask a language model within a limit of time, and keep what was sent without its content."""

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

_MAX_WAITING: Final = 4


@dataclass(frozen=True)
class SentPrompt:
    """A prompt that was sent: its hash, and how many tokens it and its answer have."""

    sha256: str
    tokens: int
    answer_tokens: int | None = None


@dataclass(frozen=True)
class ModelUse:
    """What a question sent to a language model, without the content. `outcome` says what came of it."""

    model: str
    prompts: tuple[SentPrompt, ...]
    sent_values: bool
    outcome: str

    def to_document(self) -> dict[str, Any]:
        """Return this as JSON, for the query run and the access log."""
        return {**asdict(self), "prompts": [asdict(prompt) for prompt in self.prompts]}


class BoundedModel:
    """A language model that is waited for only so long. It may be shared by threads.

    A request that takes longer goes on in its thread until the model's own limits end it. At most four are awaited at
    once, so that a model that hangs does not collect threads.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._lock, self._waiting = threading.Lock(), 0

    @property
    def name(self) -> str:
        return self._model.name

    def complete(self, prompt: str, seconds: float) -> str:
        """Return the answer to a prompt. ModelUnavailable if it takes longer than `seconds`, or if too many wait."""
        with uninterrupted:
            if not self._enter():
                fact = f"{_MAX_WAITING} questions wait for the model {self.name!r}"
                raise ModelUnavailable(fact, value=self.name, remedy="ask again later")
            answer = BackgroundValue("question to a language model", partial(self._complete, prompt), daemon=True)
        try:
            return answer.wait(seconds)
        except TimeoutError:
            fact = f"the model {self.name!r} did not answer within {seconds:.3g} seconds"
            raise ModelUnavailable(fact, value=self.name, remedy="raise `ask.llm_seconds`") from None

    def _enter(self) -> bool:
        with self._lock:
            is_free = self._waiting < _MAX_WAITING
            self._waiting += is_free
            return is_free

    def _complete(self, prompt: str) -> str:
        try:
            return self._model.complete(prompt)
        finally:
            with self._lock:
                self._waiting -= 1


class ModelCalls:
    """The calls for one question, which share one limit of time."""

    def __init__(self, model: BoundedModel, seconds: float, count_tokens: Callable[[str], int]) -> None:
        self._model, self._count_tokens = model, count_tokens
        self._deadline = time.monotonic() + seconds
        self.prompts: list[SentPrompt] = []

    def ask(self, prompt: str) -> str:
        """Return the answer to a prompt. ModelUnavailable at the limit, and the errors of the model."""
        digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
        sent = SentPrompt(digest, self._count_tokens(prompt))
        self.prompts.append(sent)
        answer = self._model.complete(prompt, max(0.0, self._deadline - time.monotonic()))
        self.prompts[-1] = SentPrompt(digest, sent.tokens, self._count_tokens(answer))
        return answer
