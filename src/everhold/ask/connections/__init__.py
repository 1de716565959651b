"""Connected databases: their addresses, their tables, and where a question about them runs."""
