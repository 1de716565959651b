"""Connect databases, keep the rows of their tables up to date, and choose where a question runs."""
