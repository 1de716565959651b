"""Recollect: a memory engine for AI agents."""

from recollect.access.chain import Verification
from recollect.async_engine import AsyncRecollect, AsyncView
from recollect.engine import Recollect
from recollect.model import AccessLog, Change, Memory, Relationship, Revision, Scope
from recollect.recall.hit import Hit, Hits, Why
from recollect.recall.listing import Listing
from recollect.remember.forget import Forgotten
from recollect.remember.relate import Related
from recollect.report import Report
from recollect.settings import Settings
from recollect.view import View

__all__ = [
    "AccessLog",
    "AsyncRecollect",
    "AsyncView",
    "Change",
    "Forgotten",
    "Hit",
    "Hits",
    "Listing",
    "Memory",
    "Recollect",
    "Related",
    "Relationship",
    "Report",
    "Revision",
    "Scope",
    "Settings",
    "Verification",
    "View",
    "Why",
]
__version__ = "0.1.0"
