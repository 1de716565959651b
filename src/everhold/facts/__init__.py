"""Extract statements about people from texts, with pure functions that use neither stores nor models."""
