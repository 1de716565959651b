"""Render remembered data as text for a prompt, within a budget of tokens."""
