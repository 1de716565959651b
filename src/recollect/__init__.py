"""Recollect: a memory engine for AI agents."""
