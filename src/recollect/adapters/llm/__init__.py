"""Any endpoint that speaks OpenAI's `/chat/completions`: OpenAI, Ollama, vLLM and many more."""

from recollect.adapters.llm.chat import ChatModel

__all__ = ["ChatModel"]
