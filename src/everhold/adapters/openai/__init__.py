"""Any endpoint that speaks OpenAI's `/embeddings` or `/chat/completions`: OpenAI, Ollama, vLLM and many more."""

from everhold.adapters.openai.chat import ChatModel
from everhold.adapters.openai.embedder import OpenAIEmbedder

__all__ = ["ChatModel", "OpenAIEmbedder"]
