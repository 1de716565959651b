"""A frame in plain words: what is asked for, under which conditions, and what a reading takes for granted."""
