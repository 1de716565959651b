"""Everhold: a memory engine for AI agents.

`Everhold.open()` returns an engine, and `engine.scope(user=…)` a view of one user's memories with the verbs `remember`,
`recall` and others. Every error is an `EverholdError`. The types that verbs take and return are exported here.
"""

import logging

from everhold.lazy_exports import list_exports, make_importer

# The exported names by the module that defines them. `__init__.pyi` lists the same for type checkers and editors.
_EXPORTS = {
    "access.chain": ("Verification",),
    "adapters.caller_embedder": ("FunctionEmbedder",),
    "agents.files": ("AgentFile",),
    "async_engine": ("AsyncEverhold", "OpeningEngine"),
    "context.section": ("Context", "SectionUse"),
    "context.window": ("Window",),
    "engine": ("Everhold",),
    "episodes.listing": ("EpisodeDetails", "Episodes"),
    "episodes.reading": ("SpanSummary",),
    "errors": (
        "AlreadyExists",
        "ArgumentFault",
        "BatchTooLarge",
        "BrokenReference",
        "Conflict",
        "EmptyQuery",
        "EverholdError",
        "FileError",
        "IdempotencyMismatch",
        "InvalidArguments",
        "InvalidInput",
        "InvalidSettings",
        "MalformedId",
        "MissingExtra",
        "ModelDamaged",
        "ModelError",
        "ModelNotFound",
        "ModelUnavailable",
        "NotFound",
        "Remedy",
        "SchemaTooNew",
        "SignInRefused",
        "StaleVersion",
        "StoreBusy",
        "StoreDamaged",
        "StoreError",
        "StoreFull",
        "StoreMissing",
        "StoreReadOnly",
        "StoreUnavailable",
        "UnknownField",
    ),
    "exchange.loading": ("ImportResult",),
    "exchange.moving": ("Moved",),
    "maintenance.extraction": ("Extracted",),
    "maintenance.pipeline": ("JobReport", "MaintenanceReport"),
    "model": (
        "AccessLog",
        "Agent",
        "AgentState",
        "Block",
        "Change",
        "Conversation",
        "Episode",
        "MaintenanceRun",
        "Memory",
        "Message",
        "Organization",
        "Project",
        "Relationship",
        "Revision",
        "Scope",
        "Session",
        "Tool",
        "User",
    ),
    "model.base": ("Entity",),
    "ports.embedder": ("Embedder",),
    "ports.reranker": ("Reranker",),
    "ports.session_cache": ("WorkingMemory",),
    "progress": ("StepProgress",),
    "recall.filters": ("FilterArguments",),
    "recall.hit": ("Hit", "Hits", "Why"),
    "recall.listing": ("Listing",),
    "recall.message_hits": ("MessageHit", "MessageHits"),
    "recall.recipe": ("Recipe",),
    "recall.timeline": ("Period",),
    "recall.why_not": ("WhyNot",),
    "remember.draft": ("MemoryFields",),
    "remember.forget": ("Forgotten",),
    "remember.contradictions": ("MemoryConflict",),
    "remember.merge": ("Merged", "MergedPair"),
    "remember.relate": ("Related",),
    "remember.undo_run": ("SkippedChange", "UndoneRun"),
    "report": ("Report",),
    "sessions.messages": ("Added", "Messages"),
    "settings": ("Settings",),
    "settings_fields": ("SettingsFields",),
    "tenancy.accounts": ("AccountPage",),
    "tenancy.deletion": ("Deleted",),
    "views.agents": ("AgentFields",),
    "views.blocks": ("BlockFields", "NewBlockFields"),
    "tools.definitions": ("ToolList",),
    "views.accounts": ("OrganizationFields", "ProjectFields", "UserFields"),
    "events.event": ("ChangeEvent",),
    "events.reader": ("EventStream",),
    "events.subscription": ("Subscription",),
    "views.messages": ("MessageFields",),
    "views.sessions": ("ConversationFields", "SessionFields"),
    "views.tools": ("DerivedToolFields", "NewToolFields", "ToolFields"),
    "views.view": ("AsyncView", "View"),
}

__all__ = list_exports(_EXPORTS)  # noqa: PLE0605
__version__ = "0.1.0"
__getattr__ = make_importer(__name__, _EXPORTS, globals())

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the application configures logging


def __dir__() -> list[str]:
    return [*globals(), *__all__]
