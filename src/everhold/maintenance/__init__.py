"""Care for what is stored: changing the embedding model, purging what is long deleted."""
