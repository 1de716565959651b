"""Finding memories again, and saying why."""
