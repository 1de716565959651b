"""What is kept in this process and ends with it."""

from everhold.adapters.in_process.session_cache import InProcessSessions

__all__ = ["InProcessSessions"]
