"""Vector indexes, for scopes that are too large for an exact search.

An index slows every write, so it is built only where needed: `maintain` builds one for each kind and dimension of which
an organization has more than `EXACT_UP_TO` current chunks, without blocking writers. Until then, and for dimensions
that pgvector cannot index, the search is exact. The settings choose between HNSW, which finds more and costs more to
build, and IVFFlat. An index whose type or parameters differ from the settings is rebuilt.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Any, NamedTuple

import psycopg

from everhold.adapters.postgres.connection import PostgresOptions
from everhold.adapters.postgres.dialect import CURRENT_CHUNKS
from everhold.adapters.postgres.partitions import begin_brief_transaction, is_partitioned, list_partitions
from everhold.adapters.postgres.security import EVERYTHING, set_access
from everhold.errors import InvalidInput
from everhold.model.searchable import SEARCHABLE
from everhold.schema.sql import quote

EXACT_UP_TO = 100_000  # chunks of a scope; a larger scope is searched by an index
MAX_DIMENSIONS = 4000  # the most that pgvector can index as halfvec
_BUILD_LOCK = 0x6E656172657374  # the advisory lock of the building process; an arbitrary number
_HNSW_DEFAULTS = (16, 64)  # pgvector's defaults of m and ef_construction, which the server does not list
_USE_INDEX_ORDER = {"enable_sort": "off"}  # otherwise the planner may sort the whole scope instead of using the index
_HNSW_SETTINGS = {
    "hnsw.iterative_scan": "strict_order",
    "hnsw.ef_search": "200",
    "hnsw.max_scan_tuples": "200000",
    "hnsw.scan_mem_multiplier": "4",
    **_USE_INDEX_ORDER,
}
_IVFFLAT_SETTINGS = {"ivfflat.iterative_scan": "relaxed_order", **_USE_INDEX_ORDER}
_FIND_LARGE_KEYS = f"""SELECT DISTINCT "owner_kind", "dimensions" FROM "chunks"
WHERE {CURRENT_CHUNKS} AND "dimensions" BETWEEN 1 AND {MAX_DIMENSIONS} AND "vector" IS NOT NULL
GROUP BY "organization_id", "owner_kind", "dimensions" HAVING count(*) > %s"""


class IndexKey(NamedTuple):
    """The kind of records and the number of dimensions that an index covers."""

    kind: str
    dimensions: int


def name_vector_index(kind: str, dimensions: int) -> str:
    return f"nearest_{kind}_chunks_{int(dimensions)}"


def cast_vector(dimensions: int) -> str:
    """Return the indexed expression. Vectors are normalised, so the inner product orders them as the cosine does."""
    return f'"vector"::halfvec({int(dimensions)})'


def make_index_condition(kind: str, dimensions: int) -> str:
    """Return the index's condition. It uses literals: the planner does not match bound values to a partial index."""
    if kind not in SEARCHABLE:
        raise InvalidInput(f"no kind {kind!r}", value=kind, remedy=f"use one of {', '.join(SEARCHABLE)}")
    return f"""{CURRENT_CHUNKS} AND "owner_kind" = '{kind}' AND "dimensions" = {int(dimensions)}"""


def build_missing_indexes(
    connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, exact_up_to: int = EXACT_UP_TO
) -> list[IndexKey]:
    """Build the indexes that are needed and missing, and return them. Only one process builds at a time.

    An index that cannot be locked quickly is left for the next maintenance: other statements would queue behind it.
    """
    [(is_locked,)] = connection.execute("SELECT pg_try_advisory_lock(%s)", [_BUILD_LOCK]).fetchall()
    if not is_locked:
        return []
    try:
        with connection.transaction():
            set_access(connection, EVERYTHING)
            large_keys = [
                IndexKey(*row) for row in connection.execute(_FIND_LARGE_KEYS.encode(), [exact_up_to]).fetchall()
            ]
        missing_keys = [key for key in large_keys if not _matches_settings(connection, options, key)]
        return [key for key in missing_keys if _try_build(connection, options, key)]
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", [_BUILD_LOCK])


FIND_VALID_INDEX = """SELECT amname::text, coalesce(reloptions, '{}') FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indexrelid = to_regclass(%s) AND indisvalid"""


def _matches_settings(connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, key: IndexKey) -> bool:
    index_rows = connection.execute(FIND_VALID_INDEX, [name_vector_index(*key)]).fetchall()
    return index_rows == [(options.vector_index, _list_parameters(options))]


def _list_parameters(options: PostgresOptions) -> list[str]:
    """Return the index parameters in the form in which the server lists them; defaults are left out."""
    if options.vector_index == "ivfflat":
        return [f"lists={options.lists}"]
    parameters = (options.hnsw_m, options.hnsw_ef_construction)
    return [] if parameters == _HNSW_DEFAULTS else [f"m={parameters[0]}", f"ef_construction={parameters[1]}"]


def _try_build(connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, key: IndexKey) -> bool:
    try:
        _build(connection, options, key)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return False
    return True


def _build(connection: psycopg.Connection[tuple[Any, ...]], options: PostgresOptions, key: IndexKey) -> None:
    """Build a vector index without blocking writers, on each partition if the table has partitions."""
    index, parameters = name_vector_index(*key), ", ".join(_list_parameters(options))
    definition = f"""USING {options.vector_index} (({cast_vector(key.dimensions)}) halfvec_ip_ops)
{f"WITH ({parameters})" if parameters else ""} WHERE {make_index_condition(*key)}"""
    if not is_partitioned(connection, "chunks"):
        _drop(connection, index)  # an index with other parameters, or the remains of an interrupted build
        connection.execute(f'CREATE INDEX CONCURRENTLY {quote(index)} ON "chunks" {definition}'.encode())
        return
    with begin_brief_transaction(connection):  # a partitioned index cannot be dropped concurrently
        connection.execute(f"DROP INDEX IF EXISTS {quote(index)}".encode())
        connection.execute(f'CREATE INDEX {quote(index)} ON ONLY "chunks" {definition}'.encode())
    for partition in list_partitions(connection, "chunks"):
        partition_index = f"{index}@{partition.rpartition('@')[2]}"
        _drop(connection, partition_index)
        connection.execute(
            f"CREATE INDEX CONCURRENTLY {quote(partition_index)} ON {quote(partition)} {definition}".encode()
        )
        with begin_brief_transaction(connection):
            connection.execute(f"ALTER INDEX {quote(index)} ATTACH PARTITION {quote(partition_index)}".encode())


def _drop(connection: psycopg.Connection[tuple[Any, ...]], index: str) -> None:
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {quote(index)}".encode())


def make_search_settings(kind: str, parameters: Sequence[str]) -> dict[str, str]:
    """Return the settings to search an index of this type until it has found enough rows of the scope."""
    if kind == "hnsw":
        return _HNSW_SETTINGS
    lists = int(parameters[0].partition("=")[2])
    return {
        **_IVFFLAT_SETTINGS,
        "ivfflat.probes": str(max(lists // 10, isqrt(lists))),
        "ivfflat.max_probes": str(lists),
    }
