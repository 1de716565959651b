"""Context: what a prompt is told of what is remembered, within a budget of tokens."""
