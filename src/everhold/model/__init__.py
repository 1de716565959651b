"""The entities: frozen values that do not depend on how they are stored.

An entity's module is imported when the entity is first used, because most processes use few of them.
"""

from everhold.lazy_exports import list_exports, make_importer

# The entities by the module that defines them. `__init__.pyi` has the same list for type checkers and editors.
_EXPORTS = {
    "agent": ("Agent", "AgentState", "Block", "BlockAgent", "Tool", "ToolAgent"),
    "base": ("Entity", "Row"),
    "change_feed": ("Outbox", "OutboxMark"),
    "counter": ("Counter",),
    "data_key": ("DataKey",),
    "dataset": ("Connection", "FieldMetadata", "QueryLesson", "QueryPattern", "QueryRun", "Source", "TableMetadata"),
    "embedding_model": ("EmbeddingModel",),
    "episode": ("Episode",),
    "execution": ("ActionProposal", "ActionResult", "Cycle", "Execution"),
    "history": ("Change", "Revision"),
    "housekeeping": (
        "ApiKey",
        "ArchiveFile",
        "BackupTarget",
        "Job",
        "Lease",
        "LogHead",
        "MaintenanceRun",
        "MoveMark",
        "ProjectionState",
        "SchemaVersion",
        "Secret",
        "UserErasure",
    ),
    "memory": ("AccessLog", "Chunk", "Memory", "Relationship", "Tag"),
    "scope": ("Scope",),
    "session": ("Conversation", "Message", "Session", "SessionArchive"),
    "tenancy": ("Organization", "Project", "User"),
    "workspace": ("Blob", "Snapshot", "Workspace", "WorkspaceFile"),
}

__all__ = list_exports(_EXPORTS)  # noqa: PLE0605
__getattr__ = make_importer(__name__, _EXPORTS, globals())
