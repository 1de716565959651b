"""Records in plain Python: the reference that every other store is compared with."""

from everhold.adapters.in_memory.records import InMemoryRecords

__all__ = ["InMemoryRecords"]
