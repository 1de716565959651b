"""Which words of a question name which tables, columns and values."""
