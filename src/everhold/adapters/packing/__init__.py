"""Packs rows with MessagePack and compresses them with Zstandard."""

from everhold.adapters.packing.packing import MessagePacking

__all__ = ["MessagePacking"]
