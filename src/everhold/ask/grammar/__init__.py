"""Frames from the pieces of a question, by patterns over one-letter codes (see `language/cues.py`)."""
