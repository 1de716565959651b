"""Records in PostgreSQL, with words and vectors in the same transaction."""

from recollect.adapters.postgres.candidates import PostgresCandidates
from recollect.adapters.postgres.connection import PostgresOptions
from recollect.adapters.postgres.records import PostgresRecords
from recollect.adapters.postgres.replica import ReplicaReading

__all__ = ["PostgresCandidates", "PostgresOptions", "PostgresRecords", "ReplicaReading"]
