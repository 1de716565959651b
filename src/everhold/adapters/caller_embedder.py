"""An embedder that the caller brings: a Python function, or an object with the methods of the port.

Nothing that it returns is trusted. `CallerEmbedder` is the one place that checks it.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any

from everhold.errors import EverholdError, InvalidInput, ModelError, ModelUnavailable, format_value
from everhold.model.fields import MAX_DIMENSIONS
from everhold.model.memory import MODEL_NAME_LENGTH
from everhold.model.validation import validate_text
from everhold.model.vectors import read_vector
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.tokenizer import Tokenizer
from everhold.text.estimated_tokens import EstimatedTokenizer

_BATCH = 256


class FunctionEmbedder:
    """A Python function as an embedder: `FunctionEmbedder("my-model@1", 256, embed)`.

    `model` identifies the model in the store; another name is another model. `embed` takes a list of texts and returns
    one vector of `dimensions` numbers for each, or None for a text that it has no vector for. Without `embed`, a text
    has a vector only if the caller passes one with it. Set `thread_safe` if several threads may call `embed` at once.
    """

    def __init__(
        self,
        model: str,
        dimensions: int,
        embed: Callable[[list[str]], Iterable[Any]] | None = None,
        *,
        tokenizer: Tokenizer | None = None,
        thread_safe: bool = False,
    ) -> None:
        if embed is not None and not callable(embed):
            raise InvalidInput(
                f"embed is {format_value(embed)}", value=embed, remedy="pass a function that takes a list of texts"
            )
        self.thread_safe = thread_safe
        self._model, self._dimensions, self._embed = model, dimensions, embed
        self._tokenizer = tokenizer or EstimatedTokenizer()

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def special_tokens(self) -> int:
        return self._tokenizer.special_tokens

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return self._tokenizer.offsets(text)

    def embed(self, texts: Sequence[str]) -> Any:
        return [None for _ in texts] if self._embed is None else self._embed(list(texts))


class CallerEmbedder:
    """Asks a caller's embedder, some texts at a time, and checks everything that it returns.

    Only one thread at a time calls the embedder, unless its attribute `thread_safe` is True. An error of the embedder
    is raised as a ModelError, and an OSError, such as a lost connection, as ModelUnavailable, which may be retried. The
    original error is the cause. Errors of Everhold are passed on unchanged.
    """

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._model = _read_name(getattr(inner, "model", None))
        self._dimensions = _read_dimensions(getattr(inner, "dimensions", None), self._model)
        is_thread_safe = getattr(inner, "thread_safe", False) is True
        # The lock is reentrant, because an embedder may itself call the engine.
        self._call_lock = nullcontext() if is_thread_safe else threading.RLock()

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def tokenizer(self) -> Tokenizer:
        """The embedder itself, if it has the methods of a tokenizer; otherwise one that estimates."""
        return self._inner if isinstance(self._inner, Tokenizer) else EstimatedTokenizer()

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        vectors: list[Vector | None] = [None] * len(texts)
        indexes = [index for index, text in enumerate(texts) if text and not text.isspace()]
        for start in range(0, len(indexes), _BATCH):
            batch = indexes[start : start + _BATCH]
            answers = self._ask([texts[index] for index in batch])
            for index, answer in zip(batch, answers, strict=True):
                vectors[index] = None if answer is None else self._read_vector(answer)
        return vectors

    def _ask(self, texts: list[str]) -> list[Any]:
        """Return one answer for each text, not yet read as a vector."""
        count = len(texts)
        try:
            with self._call_lock:
                answers = list(islice(iter(self._inner.embed(texts)), count + 1))
        except EverholdError:
            raise
        except OSError as error:
            raise ModelUnavailable(
                f"embedder {self._model!r} raised {type(error).__name__} for {count} texts",
                value=self._model,
                remedy="try again",
            ) from error
        except Exception as error:
            raise ModelError(
                f"embedder {self._model!r} raised {type(error).__name__} for {count} texts",
                value=self._model,
                remedy="correct the embedder",
            ) from error
        if len(answers) != count:
            returned = "more" if len(answers) > count else str(len(answers))
            raise ModelError(
                f"embedder {self._model!r} returned {returned} vectors for {count} texts",
                value=self._model,
                remedy="return one for each text",
            )
        return answers

    def _read_vector(self, answer: Any) -> Vector:
        try:
            return read_vector(answer, f"a vector of embedder {self._model!r}", self._dimensions)
        except InvalidInput as error:
            raise ModelError.from_sentence(str(error)) from error


def _read_name(name: Any) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= MODEL_NAME_LENGTH or name != name.strip():
        raise InvalidInput(
            f"the embedder's model is {format_value(name)}",
            value=name,
            remedy=f"name it by 1 to {MODEL_NAME_LENGTH} characters without spaces around them",
        )
    return validate_text(name, "the embedder's model")


def _read_dimensions(dimensions: Any, model: str) -> int:
    if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise InvalidInput(
            f"embedder {model!r} has dimensions {format_value(dimensions)}",
            value=model,
            remedy=f"give it a whole number from 1 to {MAX_DIMENSIONS}",
        )
    return dimensions
