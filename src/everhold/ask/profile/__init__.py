"""Derive a schema from the content of tables: words of names, kinds of columns, and keys."""
