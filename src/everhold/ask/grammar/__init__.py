"""Build frames from the pieces of a question, with patterns over one-letter codes (see `language/cues.py`)."""
