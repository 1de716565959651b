"""Uploaded files: stored with their tables as Parquet, profiled, described, found and deleted."""
