"""Recollect: a memory engine for AI agents.

`Recollect.open()` gives an engine, `engine.scope(user=…)` a view of somebody's memories, and `remember` and `recall` on
it do what they say. Every error is a `RecollectError`; the others are in `recollect.errors`.
"""

from recollect.access.chain import Verification
from recollect.async_engine import AsyncRecollect, AsyncView
from recollect.context.section import Context
from recollect.engine import Recollect
from recollect.errors import (
    Conflict,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    ModelError,
    NotFound,
    RecollectError,
    StoreError,
)
from recollect.exchange.moving import Moved
from recollect.model import AccessLog, Change, Memory, Message, Relationship, Revision, Scope, Session
from recollect.recall.hit import Hit, Hits, Why
from recollect.recall.listing import Listing
from recollect.recall.recipe import Recipe
from recollect.recall.why_not import WhyNot
from recollect.remember.draft import MemoryFields
from recollect.remember.forget import Forgotten
from recollect.remember.merge import Merged
from recollect.remember.relate import Related
from recollect.report import Report
from recollect.sessions.messages import Messages
from recollect.settings import Settings
from recollect.upkeep.purge import Purged
from recollect.view import View

__all__ = [
    "AccessLog",
    "AsyncRecollect",
    "AsyncView",
    "Change",
    "Conflict",
    "Context",
    "Forgotten",
    "Hit",
    "Hits",
    "InvalidInput",
    "InvalidSettings",
    "Listing",
    "Memory",
    "MemoryFields",
    "Merged",
    "Message",
    "Messages",
    "MissingExtra",
    "ModelError",
    "Moved",
    "NotFound",
    "Purged",
    "Recipe",
    "Recollect",
    "RecollectError",
    "Related",
    "Relationship",
    "Report",
    "Revision",
    "Scope",
    "Session",
    "Settings",
    "StoreError",
    "Verification",
    "View",
    "Why",
    "WhyNot",
]
__version__ = "0.1.0"
