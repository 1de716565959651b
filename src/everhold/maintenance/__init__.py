"""Maintenance jobs, purging, changes of the embedding model, and integrity checks."""
