"""Working with text: pure functions that know nothing of stores or models."""
