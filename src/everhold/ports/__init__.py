"""Protocols that adapters implement for the capabilities, with their value types."""
