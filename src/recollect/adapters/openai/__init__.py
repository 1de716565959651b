"""Any endpoint that speaks OpenAI's `/embeddings`: OpenAI, Ollama, vLLM and many more."""
