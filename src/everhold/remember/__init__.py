"""Keeping memories: adding, revising, superseding, relating, tagging, forgetting, undoing."""
