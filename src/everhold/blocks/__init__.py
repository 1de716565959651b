"""Core-memory blocks: texts that are always part of an agent's prompt."""
