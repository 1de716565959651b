"""Questions about data in plain language: from words to a frame, to SQL."""
