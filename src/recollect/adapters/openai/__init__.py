"""Any endpoint that speaks OpenAI's `/embeddings`: OpenAI, Ollama, vLLM and many more."""

from recollect.adapters.openai.embedder import OpenAIEmbedder

__all__ = ["OpenAIEmbedder"]
