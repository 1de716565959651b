"""Search memories, and explain the results."""
