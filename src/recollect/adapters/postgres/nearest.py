"""The index of near vectors, for scopes too large to be searched exactly.

It costs every write, so it exists only where it is needed: `upkeep` builds one for each dimension of which an
organization has more current chunks than an exact search covers, without holding up writers. Until then, and for
dimensions it cannot hold, the search stays exact.
"""

from typing import Any

import psycopg

from recollect.adapters.postgres.dialect import CURRENT_MEMORY_CHUNKS
from recollect.schema.sql import quoted

EXACT_UP_TO = 100_000
MOST_DIMENSIONS = 4000
_ONE_AT_A_TIME = 0x6E656172657374
_LARGE = f"""SELECT DISTINCT "dimensions" FROM "chunks"
WHERE {CURRENT_MEMORY_CHUNKS} AND "dimensions" BETWEEN 1 AND {MOST_DIMENSIONS} AND "vector" IS NOT NULL
GROUP BY "organization_id", "dimensions" HAVING count(*) > %s"""


def index_of(dimensions: int) -> str:
    return f"nearest_chunks_{int(dimensions)}"


def distance(dimensions: int) -> str:
    """The expression that the index is over; vectors are normalised, so the inner product orders them."""
    return f'"vector"::halfvec({int(dimensions)})'


def indexed(dimensions: int) -> str:
    """The condition under which a chunk is in the index."""
    return f'{CURRENT_MEMORY_CHUNKS} AND "dimensions" = {int(dimensions)}'


def build_needed(connection: psycopg.Connection[tuple[Any, ...]], exact_up_to: int = EXACT_UP_TO) -> list[int]:
    """Builds the indexes that are needed and missing, one process at a time; the dimensions they are for."""
    [(mine,)] = connection.execute("SELECT pg_try_advisory_lock(%s)", [_ONE_AT_A_TIME]).fetchall()
    if not mine:
        return []
    try:
        large = [dimensions for (dimensions,) in connection.execute(_LARGE.encode(), [exact_up_to]).fetchall()]
        missing = [dimensions for dimensions in large if not is_built(connection, dimensions)]
        for dimensions in missing:
            _build(connection, dimensions)
        return missing
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", [_ONE_AT_A_TIME])


IS_BUILT = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"


def is_built(connection: psycopg.Connection[tuple[Any, ...]], dimensions: int) -> bool:
    return connection.execute(IS_BUILT, [index_of(dimensions)]).fetchall() == [(True,)]


def _build(connection: psycopg.Connection[tuple[Any, ...]], dimensions: int) -> None:
    name = quoted(index_of(dimensions))
    connection.execute(f"DROP INDEX IF EXISTS {name}".encode())  # what an interrupted build left
    connection.execute(
        f"""CREATE INDEX CONCURRENTLY {name} ON "chunks" USING hnsw (({distance(dimensions)}) halfvec_ip_ops)
WHERE {indexed(dimensions)}""".encode()
    )
