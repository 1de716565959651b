"""Encrypt fields before they are stored, and decrypt them after they are read."""
