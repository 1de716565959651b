"""Choose the language models of an engine: one for maintenance, and one for questions about data."""

from typing import TYPE_CHECKING, Any

from everhold.ports.language_model import LanguageModel
from everhold.settings import Settings
from everhold.settings_sections import Llm

if TYPE_CHECKING:
    from everhold.ask.language_model.calling import BoundedModel


def make_language_model(settings: Settings) -> LanguageModel | None:
    """Return the language model of maintenance, which may take its time; None without one."""
    return None if settings.llm is None else _make_chat_model(settings.llm)


def make_question_model(settings: Settings) -> "BoundedModel | None":
    """Return the language model for questions about data; None without one, or if the settings turn it off for them."""
    if settings.llm is None or settings.ask.llm == "off":
        return None
    from everhold.ask.language_model.calling import BoundedModel  # few processes ask

    # A caller waits, so a request is repeated once at most and ends soon after nobody waits for it.
    return BoundedModel(_make_chat_model(settings.llm, timeout=settings.ask.llm_seconds, retries=1))


def _make_chat_model(llm: Llm, **limits: Any) -> LanguageModel:
    from everhold.adapters.openai import ChatModel  # needs an extra

    key = llm.api_key.get_secret_value() if llm.api_key else None
    return ChatModel(llm.url, llm.model, api_key=key, **limits)
