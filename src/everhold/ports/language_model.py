"""A language model, which maintenance and questions about data call. Writes never wait for it."""

from typing import Protocol


class LanguageModel(Protocol):
    """Completes a prompt. The caller must check an answer before storing or running anything from it."""

    @property
    def name(self) -> str:
        """The model's name, which is stored with everything taken from its answers."""

    def complete(self, prompt: str) -> str:
        """Return the answer to a prompt as plain text; empty if the model has no answer.

        ModelUnavailable, which is retryable, if the model cannot be reached; raise ModelError if it refuses the
        request.
        """
