"""SQLite files that hold a user's data: read, never written."""
