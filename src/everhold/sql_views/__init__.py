"""Installs, lists and removes SQL views with the names of other memory systems."""
