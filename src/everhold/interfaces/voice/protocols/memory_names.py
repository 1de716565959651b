"""The ids by which old clients know memories: ids that they sent, or that memories were imported with.

Both are stored as keys. The engine's own ids begin with a time, by which a large store is partitioned.
"""

from collections.abc import Sequence
from typing import Any

from everhold import Memory


def get_name(memory: Memory) -> str:
    """Return the id by which clients know a memory."""
    return memory.key or memory.id


def match_names(names: Sequence[str]) -> dict[str, Any]:
    """Return the condition on memories that have one of these ids."""
    return {"or": [{"id": list(names)}, {"key": list(names)}]}
