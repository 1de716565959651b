"""Measure recall on your own data."""
