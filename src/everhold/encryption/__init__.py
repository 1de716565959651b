"""Encrypts fields on their way into the store, and decrypts them on their way out."""
