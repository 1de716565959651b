"""Organizations, users and projects: creating, signing in, deleting and restoring them."""
