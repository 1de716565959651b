"""Let a language model propose readings: write prompts, read answers, and check the statements in them."""
