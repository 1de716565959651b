"""Pure functions on text: terms, chunks, dates, names and summaries."""
