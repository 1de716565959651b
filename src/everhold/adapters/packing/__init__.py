"""Pack rows with MessagePack and compress them with Zstandard."""

from everhold.adapters.packing.packing import MessagePacking

__all__ = ["MessagePacking"]
