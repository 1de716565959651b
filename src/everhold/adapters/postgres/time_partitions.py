"""Create partitions for the times of imported memories."""

from collections.abc import Collection
from datetime import datetime

from everhold.adapters.postgres.connection import PostgresOptions, connect, translate_errors
from everhold.adapters.postgres.partitions import add_partitions, is_partitioned
from everhold.adapters.postgres.security import read_role


class PostgresTimePartitions:
    """Creates partitions with a connection of the tables' owner."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options

    def add_months(self, months: Collection[datetime]) -> None:
        options = self._options
        if not months or (options.row_security and options.owner_url is None):
            return  # only the owner may create tables
        with translate_errors(options), connect(options.owner) as connection:
            if is_partitioned(connection):
                add_partitions(connection, "memories", months, options, self._find_role())

    def _find_role(self) -> str | None:
        """Return the role that may read partitions only through their parent table; None without row security."""
        if not self._options.row_security:
            return None
        with connect(self._options) as connection:
            return read_role(connection)
