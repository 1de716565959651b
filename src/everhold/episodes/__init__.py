"""Summaries of conversations by topic, session and period of time."""
