"""The dependencies of the verbs on connections."""

from dataclasses import dataclass

from everhold.ask.connections.policy import ConnectionPolicy
from everhold.ask.sources.deps import DataDeps
from everhold.ports.databases import DatabaseProfiler, ProfileLimits


@dataclass(frozen=True)
class ConnectionDeps:
    """The dependencies of the verbs on uploaded data, the policy for connections, and the reader of a database's
    tables.
    """

    data: DataDeps
    policy: ConnectionPolicy
    profiler: DatabaseProfiler
    limits: ProfileLimits
