"""The voice gateway: the protocols of older voice assistants over ZeroMQ, answered by the engine's verbs."""
