"""The index of near vectors, for scopes too large to be searched exactly.

It slows every write, so it exists only where needed: `maintain` builds one for each kind and dimension of which an
organization has more current chunks than an exact search covers, without holding up writers. Until then, and for
dimensions it cannot hold, the search stays exact. The settings choose between HNSW, which finds more and costs more
to build, and IVFFlat; an index of another make than they say is built anew.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Any, NamedTuple

import psycopg

from everhold.adapters.postgres.connection import PostgresOptions
from everhold.adapters.postgres.dialect import CURRENT_CHUNKS
from everhold.adapters.postgres.partitions import briefly, is_parted, parts_of
from everhold.adapters.postgres.security import EVERYTHING, name
from everhold.errors import InvalidInput
from everhold.model.searchable import SEARCHABLE
from everhold.schema.sql import quote

EXACT_UP_TO = 100_000
MOST_DIMENSIONS = 4000
_ONE_AT_A_TIME = 0x6E656172657374
_OWN_CHOICE = (16, 64)
_IN_ITS_ORDER = {"enable_sort": "off"}  # so that the index's order is used, not a sort of the whole scope
_HNSW = {
    "hnsw.iterative_scan": "strict_order",
    "hnsw.ef_search": "200",
    "hnsw.max_scan_tuples": "200000",
    "hnsw.scan_mem_multiplier": "4",
    **_IN_ITS_ORDER,
}
_IVFFLAT = {"ivfflat.iterative_scan": "relaxed_order", **_IN_ITS_ORDER}
_LARGE = f"""SELECT DISTINCT "owner_kind", "dimensions" FROM "chunks"
WHERE {CURRENT_CHUNKS} AND "dimensions" BETWEEN 1 AND {MOST_DIMENSIONS} AND "vector" IS NOT NULL
GROUP BY "organization_id", "owner_kind", "dimensions" HAVING count(*) > %s"""


class IndexKey(NamedTuple):
    """Which chunks one index holds: those of a kind, with vectors of so many dimensions."""

    kind: str
    dimensions: int


def index_of(kind: str, dimensions: int) -> str:
    return f"nearest_{kind}_chunks_{int(dimensions)}"


def distance(dimensions: int) -> str:
    """The expression that the index is over; vectors are normalised, so the inner product orders them."""
    return f'"vector"::halfvec({int(dimensions)})'


def indexed(kind: str, dimensions: int) -> str:
    """Return the condition under which a chunk is in the index, in literals, so that the planner recognises it."""
    if kind not in SEARCHABLE:
        raise InvalidInput(f"no kind {kind!r}", value=kind, remedy=f"use one of {', '.join(SEARCHABLE)}")
    return f"""{CURRENT_CHUNKS} AND "owner_kind" = '{kind}' AND "dimensions" = {int(dimensions)}"""


def build_needed(
    connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, exact_up_to: int = EXACT_UP_TO
) -> list[IndexKey]:
    """Builds the indexes that are needed and missing, one process at a time, and returns which. One that
    would have to wait long for a lock is left for another time: whoever comes after would wait behind it."""
    [(mine,)] = connection.execute("SELECT pg_try_advisory_lock(%s)", [_ONE_AT_A_TIME]).fetchall()
    if not mine:
        return []
    try:
        with connection.transaction():
            name(connection, EVERYTHING)
            large = [IndexKey(*row) for row in connection.execute(_LARGE.encode(), [exact_up_to]).fetchall()]
        missing = [key for key in large if not _is_as_wanted(connection, options, key)]
        return [key for key in missing if _could_build(connection, options, key)]
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", [_ONE_AT_A_TIME])


BUILT = """SELECT amname::text, coalesce(reloptions, '{}') FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indexrelid = to_regclass(%s) AND indisvalid"""


def _is_as_wanted(connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, key: IndexKey) -> bool:
    built = connection.execute(BUILT, [index_of(*key)]).fetchall()
    return built == [(options.vector_index, _parameters(options))]


def _parameters(options: PostgresOptions) -> list[str]:
    """As the server lists them; those that it would choose itself are not given."""
    if options.vector_index == "ivfflat":
        return [f"lists={options.lists}"]
    chosen = (options.hnsw_m, options.hnsw_ef_construction)
    return [] if chosen == _OWN_CHOICE else [f"m={chosen[0]}", f"ef_construction={chosen[1]}"]


def _could_build(connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, key: IndexKey) -> bool:
    try:
        _build(connection, options, key)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return False
    return True


def _build(connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, key: IndexKey) -> None:
    index, parameters = index_of(*key), ", ".join(_parameters(options))
    made = f"""USING {options.vector_index} (({distance(key.dimensions)}) halfvec_ip_ops)
{f"WITH ({parameters})" if parameters else ""} WHERE {indexed(*key)}"""
    if not is_parted(connection, "chunks"):
        _drop(connection, index)  # of another make, or what an interrupted build left
        connection.execute(f'CREATE INDEX CONCURRENTLY {quote(index)} ON "chunks" {made}'.encode())
        return
    with briefly(connection):  # an index in parts cannot be dropped concurrently
        connection.execute(f"DROP INDEX IF EXISTS {quote(index)}".encode())
        connection.execute(f'CREATE INDEX {quote(index)} ON ONLY "chunks" {made}'.encode())
    for part in parts_of(connection, "chunks"):
        own = f"{index}@{part.rpartition('@')[2]}"
        _drop(connection, own)
        connection.execute(f"CREATE INDEX CONCURRENTLY {quote(own)} ON {quote(part)} {made}".encode())
        with briefly(connection):
            connection.execute(f"ALTER INDEX {quote(index)} ATTACH PARTITION {quote(own)}".encode())


def _drop(connection: psycopg.Connection[tuple[Any, ...]], index: str) -> None:
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {quote(index)}".encode())


def search_settings(kind: str, parameters: Sequence[str]) -> dict[str, str]:
    """How an index of this make is read until enough of the scope is found."""
    if kind == "hnsw":
        return _HNSW
    lists = int(parameters[0].partition("=")[2])
    return {**_IVFFLAT, "ivfflat.probes": str(max(lists // 10, isqrt(lists))), "ivfflat.max_probes": str(lists)}
