"""What is kept in this process and ends with it."""

from recollect.adapters.in_process.session_cache import InProcessSessions

__all__ = ["InProcessSessions"]
