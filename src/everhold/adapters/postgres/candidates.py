"""The word index and the vector index of a PostgreSQL store, for large scopes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from everhold.adapters.postgres.dialect import CHUNK_WORDS, encode_vector
from everhold.adapters.postgres.nearest import (
    EXACT_UP_TO,
    FIND_VALID_INDEX,
    MAX_DIMENSIONS,
    cast_vector,
    make_index_condition,
    make_search_settings,
    name_vector_index,
)
from everhold.adapters.postgres.reading import PostgresReading
from everhold.adapters.postgres.security import access_organization
from everhold.model import Chunk
from everhold.ports.embedder import Vector
from everhold.ports.search_indexes import Statistics
from everhold.ports.search_space import SearchSpace
from everhold.schema.sql import quote

_CONTAINS_TERM = f'{CHUNK_WORDS} @> "chunk_words"(%s, %s, %s, %s)'
_COMMON_COUNT = 50_000  # a term in more chunks than this is used only if rarer terms match too few


class PostgresCandidates:
    """Finds candidates with a GIN index over hashed terms, and with pgvector."""

    def __init__(self, records: PostgresReading, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._records = records
        self._exact_up_to = exact_up_to

    def find_by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        weights_by_term = _choose_terms(statistics, limit)
        if not weights_by_term:
            return []
        scope, values = self._compile_space(space)
        # With one branch per term, the index alone answers each branch, and no row's terms are compared.
        with_term = f"""SELECT c."owner_id", c."revision", c."chunk_index", %s::float8 AS gain
FROM "chunks" AS c WHERE {scope} AND {_CONTAINS_TERM} AND {_make_live_condition(space)}"""
        sql = f"""SELECT "owner_id" FROM ({" UNION ALL ".join([with_term] * len(weights_by_term))}) AS held
GROUP BY "owner_id", "revision", "chunk_index" ORDER BY sum(gain) DESC, "owner_id" LIMIT %s"""
        bound_values = [
            part
            for term, gain in weights_by_term.items()
            for part in (gain, *values, *_make_word_arguments(space, term))
        ]
        return self._find_owners(sql, bound_values, limit, space.organization_id, {})

    def find_by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        encoded_vector, dimensions = encode_vector(np.asarray(vector, "<f2").tobytes()), vector.size
        scope, values = self._compile_space(space)
        select_owners = f'SELECT c."owner_id" FROM "chunks" AS c WHERE {scope} AND {_make_live_condition(space)} AND '
        settings = self._choose_index_settings(space, dimensions)
        if settings:
            nearest_first = f"ORDER BY c.{cast_vector(dimensions)} <#> %s::halfvec({dimensions}) LIMIT %s"
            sql = f"{select_owners}{make_index_condition(space.kind, dimensions)} {nearest_first}"
            return self._find_owners(sql, [*values, encoded_vector], limit, space.organization_id, settings)
        # The plain column has no index, so ordering by it compares every row of the scope. Without the condition on
        # vector_dims, one damaged vector would fail the whole query.
        has_dimensions = f'c."dimensions" = {dimensions} AND vector_dims(c."vector") = {dimensions}'
        sql = f'{select_owners}{has_dimensions} ORDER BY c."vector" <#> %s LIMIT %s'
        return self._find_owners(sql, [*values, encoded_vector], limit, space.organization_id, {})

    def _find_owners(
        self, sql: str, values: list[Any], limit: int, organization_id: str, settings: Mapping[str, str]
    ) -> list[str]:
        """Return the owners of the best chunks. Read more chunks if several belong to the same owner."""
        chunk_limit = limit
        access = access_organization(organization_id)
        while True:
            [rows] = self._records.ask([(sql, [*values, chunk_limit])], settings, access=access)
            owners = list(dict.fromkeys(owner for (owner,) in rows))
            if len(owners) >= limit or len(rows) < chunk_limit:
                return owners[:limit]
            chunk_limit *= 2

    def count_terms(self, space: SearchSpace, terms: Sequence[str]) -> Statistics:
        scope, values = self._compile_space(space)
        count_all = f'SELECT count(*) FROM "chunks" AS c WHERE {scope}'
        select_deleted = f'SELECT m."organization_id", m."id" FROM {quote(space.owner.table)} AS m WHERE m."is_deleted"'
        count_hidden = f'{count_all} AND (c."organization_id", c."owner_id") IN ({select_deleted})'
        count_with_term = f"{count_all} AND {_make_live_condition(space)} AND {_CONTAINS_TERM}"
        distinct_terms = list(dict.fromkeys(terms))
        queries: list[tuple[str, Sequence[Any]]] = [(count_all, values), (count_hidden, values)]
        queries += [(count_with_term, [*values, *_make_word_arguments(space, term)]) for term in distinct_terms]
        access = access_organization(space.organization_id)
        [[(all_chunks,)], [(hidden_chunks,)], *counts] = self._records.ask(queries, access=access)
        return Statistics(
            all_chunks - hidden_chunks, {term: rows[0][0] for term, rows in zip(distinct_terms, counts, strict=True)}
        )

    def _choose_index_settings(self, space: SearchSpace, dimensions: int) -> Mapping[str, str]:
        """Return the settings for a search by the index; empty if an exact search is fast enough or no index exists."""
        if dimensions > MAX_DIMENSIONS:
            return {}
        scope, values = self._compile_space(space)
        count_some = f'SELECT count(*) FROM (SELECT FROM "chunks" AS c WHERE {scope} LIMIT %s) AS counted'
        [[(count,)], index_rows] = self._records.ask(
            [
                (count_some, [*values, self._exact_up_to + 1]),
                (FIND_VALID_INDEX, [name_vector_index(space.kind, dimensions)]),
            ],
            access=access_organization(space.organization_id),
        )
        return make_search_settings(*index_rows[0]) if count > self._exact_up_to and index_rows else {}

    def _compile_space(self, space: SearchSpace) -> tuple[str, list[Any]]:
        """Return the condition for the space's current chunks, and its bound values."""
        read = self._records.compiler.compile_conditions(Chunk, space.organization_id, space.chunks())
        return read.conditions, read.values


def _choose_terms(statistics: Statistics, limit: int) -> dict[str, float]:
    """Return the terms to search with their weights, rarest first. Very common terms are used only if needed."""
    by_count = sorted((count, term) for term, count in statistics.chunks_with_term.items() if count)
    weights: dict[str, float] = {}
    matches = 0
    for count, term in by_count:
        if count > _COMMON_COUNT and matches >= limit:
            break
        weights[term] = math.log(1 + statistics.chunks / count)
        matches += count
    return weights


def _make_live_condition(space: SearchSpace) -> str:
    """Return the condition that the owner of a chunk `c` is not deleted."""
    return f"""NOT EXISTS (
  SELECT 1 FROM {quote(space.owner.table)} AS m
  WHERE m."organization_id" = c."organization_id" AND m."id" = c."owner_id" AND m."is_deleted"
)"""


def _make_word_arguments(space: SearchSpace, term: str) -> tuple[str, str, str, str]:
    return space.organization_id, space.kind, space.namespace, term
