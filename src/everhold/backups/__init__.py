"""Backups of a whole store at one moment. Each stores only the changes since the previous backup."""
