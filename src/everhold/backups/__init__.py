"""Backups: copies of a whole store at one moment, each as large as what changed since the one before."""
