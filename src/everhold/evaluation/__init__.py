"""Measuring recall on data of one's own."""
