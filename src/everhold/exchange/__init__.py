"""Export, import, and moving a store into another."""
