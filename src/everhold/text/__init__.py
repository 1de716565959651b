"""Pure functions on text: terms, chunks and dates."""
