"""Records in PostgreSQL, with words and vectors in the same transaction."""

from everhold.adapters.postgres.candidates import PostgresCandidates
from everhold.adapters.postgres.connection import PostgresOptions
from everhold.adapters.postgres.records import PostgresRecords
from everhold.adapters.postgres.replica import ReplicaReading

__all__ = ["PostgresCandidates", "PostgresOptions", "PostgresRecords", "ReplicaReading"]
