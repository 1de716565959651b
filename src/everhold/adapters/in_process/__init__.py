"""Stores in the memory of this process, whose content is lost when the process ends."""

from everhold.adapters.in_process.session_cache import InProcessSessions

__all__ = ["InProcessSessions"]
