"""What the verbs on connections need of the engine, beside what those on uploaded data need."""

from dataclasses import dataclass

from everhold.ask.connections.policy import ConnectionPolicy
from everhold.ask.sources.deps import DataDeps
from everhold.ports.databases import DatabaseProfiler, ProfileLimits


@dataclass(frozen=True)
class ConnectionDeps:
    """The verbs' store and files, what may be connected, and what reads the tables of a database."""

    data: DataDeps
    policy: ConnectionPolicy
    profiler: DatabaseProfiler
    limits: ProfileLimits
