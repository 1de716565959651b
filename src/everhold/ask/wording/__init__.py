"""Describe frames and readings in plain words."""
