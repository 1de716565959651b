"""One folder per technology, implementing ports."""
