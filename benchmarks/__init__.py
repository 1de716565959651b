"""Each file answers one question about the engine, in one line of JSON, and exits with 1 if the answer falls short."""
