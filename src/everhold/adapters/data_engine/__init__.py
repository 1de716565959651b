"""Runs checked statements on files and databases, and profiles databases, each in a process with limits."""

from everhold.adapters.data_engine.engine import SandboxedDataEngine
from everhold.adapters.data_engine.profiler import SandboxedProfiler

__all__ = ["SandboxedDataEngine", "SandboxedProfiler"]
