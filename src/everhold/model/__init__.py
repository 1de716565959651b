"""The entities: frozen values that do not depend on how they are stored.

An entity's module is imported when the entity is first used, because most processes use few of them.
"""

from importlib import import_module
from typing import Any

from everhold.interrupts import uninterrupted

# The entities by the module that defines them. `__init__.pyi` lists the same for type checkers and editors.
_EXPORTS = {
    "agent": ("Agent", "AgentState", "Block", "BlockAgent", "Tool", "ToolAgent"),
    "base": ("Entity", "Row"),
    "dataset": ("Connection", "FieldMetadata", "QueryPattern", "QueryRun", "Source", "TableMetadata"),
    "episode": ("Episode",),
    "execution": ("ActionProposal", "ActionResult", "Cycle", "Execution"),
    "housekeeping": (
        "ApiKey",
        "Counter",
        "DataKey",
        "EmbeddingModel",
        "Job",
        "Lease",
        "LogHead",
        "MaintenanceRun",
        "MoveMark",
        "Outbox",
        "OutboxMark",
        "ProjectionState",
        "SchemaVersion",
        "Secret",
    ),
    "memory": ("AccessLog", "Change", "Chunk", "Memory", "Relationship", "Revision", "Tag"),
    "scope": ("Scope",),
    "session": ("Conversation", "Message", "Session"),
    "tenancy": ("Organization", "Project", "User"),
    "workspace": ("Blob", "Snapshot", "Workspace", "WorkspaceFile"),
}

_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}
__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import an entity when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'everhold.model' has no attribute {name!r}")
    with uninterrupted:  # the caller may be in the middle of its work
        value = getattr(import_module(f"everhold.model.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
