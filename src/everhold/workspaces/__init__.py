"""Workspaces: files in a sandboxed folder, with snapshots."""
