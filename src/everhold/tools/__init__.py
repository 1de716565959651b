"""Tools that agents can call: schemas, checked arguments, and renderings for providers."""
