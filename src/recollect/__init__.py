"""Recollect: a memory engine for AI agents."""

from recollect.engine import Recollect
from recollect.model import Memory, Scope
from recollect.recall.hit import Hit, Hits, Why
from recollect.view import View

__all__ = ["Hit", "Hits", "Memory", "Recollect", "Scope", "View", "Why"]
__version__ = "0.1.0"
