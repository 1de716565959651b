"""Everhold: a memory engine for AI agents.

`Everhold.open()` gives an engine, `engine.scope(user=…)` a view of somebody's memories, and `remember` and `recall` on
it do what they say. Every error is a `EverholdError`; the others are in `everhold.errors`.
"""

from everhold.access.chain import Verification
from everhold.adapters.caller_embedder import FunctionEmbedder
from everhold.async_engine import AsyncEverhold
from everhold.context.section import Context
from everhold.engine import Everhold
from everhold.errors import (
    Conflict,
    EverholdError,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    ModelError,
    NotFound,
    StoreError,
)
from everhold.exchange.moving import Moved
from everhold.model import AccessLog, Change, Memory, Message, Relationship, Revision, Scope, Session
from everhold.recall.hit import Hit, Hits, Why
from everhold.recall.listing import Listing
from everhold.recall.recipe import Recipe
from everhold.recall.why_not import WhyNot
from everhold.remember.draft import MemoryFields
from everhold.remember.forget import Forgotten
from everhold.remember.merge import Merged
from everhold.remember.relate import Related
from everhold.report import Report
from everhold.sessions.messages import Messages
from everhold.settings import Settings
from everhold.upkeep.pipeline import JobReport, UpkeepReport
from everhold.views import AsyncView, View

__all__ = [
    "AccessLog",
    "AsyncEverhold",
    "AsyncView",
    "Change",
    "Conflict",
    "Context",
    "Everhold",
    "EverholdError",
    "Forgotten",
    "FunctionEmbedder",
    "Hit",
    "Hits",
    "InvalidInput",
    "InvalidSettings",
    "JobReport",
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
    "Recipe",
    "Related",
    "Relationship",
    "Report",
    "Revision",
    "Scope",
    "Session",
    "Settings",
    "StoreError",
    "UpkeepReport",
    "Verification",
    "View",
    "Why",
    "WhyNot",
]
__version__ = "0.1.0"
