"""A language model that may be asked, away from the write path."""

from typing import Protocol


class LanguageModel(Protocol):
    """Answers a prompt in words. What it says is a proposal: whoever asks checks it before keeping anything."""

    @property
    def name(self) -> str:
        """The name stored with everything that is kept from the model's answers."""

    def complete(self, prompt: str) -> str:
        """One answer to one prompt, as plain text; empty if the model has nothing to say.

        ModelUnavailable, which is retryable, if the model cannot be reached; ModelError if it refuses the request.
        """
