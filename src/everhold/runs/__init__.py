"""Runs of a task: cycles of proposed actions and their results, which survive a crash."""
