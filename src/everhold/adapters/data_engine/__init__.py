"""Runs checked statements on DuckDB, SQLite and PostgreSQL, each in a process that is ended at its limits."""

from everhold.adapters.data_engine.engine import SandboxedDataEngine

__all__ = ["SandboxedDataEngine"]
