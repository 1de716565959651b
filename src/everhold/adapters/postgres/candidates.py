"""Where to look in a large scope: PostgreSQL's indexes over our terms and vectors propose owners of chunks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from everhold.adapters.postgres.dialect import CHUNK_WORDS, vector_to_wire
from everhold.adapters.postgres.nearest import (
    BUILT,
    EXACT_UP_TO,
    MOST_DIMENSIONS,
    distance,
    index_of,
    indexed,
    search_settings,
)
from everhold.adapters.postgres.reading import PostgresReading
from everhold.adapters.postgres.security import within
from everhold.model import Chunk
from everhold.ports.embedder import Vector
from everhold.ports.search_indexes import Statistics
from everhold.ports.search_space import SearchSpace
from everhold.schema.sql import quote

_HOLDS = f'{CHUNK_WORDS} @> "chunk_words"(%s, %s, %s, %s)'
_COMMON = 50_000


class PostgresCandidates:
    """Owners of chunks worth scoring, from GIN over hashed terms and pgvector."""

    def __init__(self, records: PostgresReading, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._records = records
        self._exact_up_to = exact_up_to

    def find_by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        rare = _worth_asking(statistics, limit)
        if not rare:
            return []
        scope, values = self._scope(space)
        # one branch for each term: the index answers it, and no term is looked for in a row
        holding_one = f"""SELECT c."owner_id", c."revision", c."chunk_index", %s::float8 AS gain
FROM "chunks" AS c WHERE {scope} AND {_HOLDS} AND {_is_live(space)}"""
        sql = f"""SELECT "owner_id" FROM ({" UNION ALL ".join([holding_one] * len(rare))}) AS held
GROUP BY "owner_id", "revision", "chunk_index" ORDER BY sum(gain) DESC, "owner_id" LIMIT %s"""
        asked = [part for term, gain in rare.items() for part in (gain, *values, *_word(space, term))]
        return self._owners(sql, asked, limit, space.organization_id, {})

    def find_by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        near, dimensions = vector_to_wire(np.asarray(vector, "<f2").tobytes()), vector.size
        scope, values = self._scope(space)
        found = f'SELECT c."owner_id" FROM "chunks" AS c WHERE {scope} AND {_is_live(space)} AND '
        settings = self._index_settings(space, dimensions)
        if settings:
            nearest_first = f"ORDER BY c.{distance(dimensions)} <#> %s::halfvec({dimensions}) LIMIT %s"
            sql = f"{found}{indexed(space.kind, dimensions)} {nearest_first}"
            return self._owners(sql, [*values, near], limit, space.organization_id, settings)
        # ordered by the bare column, which no index is over: every row of the scope is compared. A damaged vector of
        # another length would fail the whole query.
        fitting = f'c."dimensions" = {dimensions} AND vector_dims(c."vector") = {dimensions}'
        sql = f'{found}{fitting} ORDER BY c."vector" <#> %s LIMIT %s'
        return self._owners(sql, [*values, near], limit, space.organization_id, {})

    def _owners(
        self, sql: str, values: list[Any], limit: int, organization_id: str, settings: Mapping[str, str]
    ) -> list[str]:
        """The owners of the best chunks; several chunks of one owner may be among them."""
        wanted = limit
        while True:
            [rows] = self._records.ask([(sql, [*values, wanted])], settings, access=within(organization_id))
            found = list(dict.fromkeys(owner for (owner,) in rows))
            if len(found) >= limit or len(rows) < wanted:
                return found[:limit]
            wanted *= 2

    def count_terms(self, space: SearchSpace, terms: Sequence[str]) -> Statistics:
        scope, values = self._scope(space)
        every = f'SELECT count(*) FROM "chunks" AS c WHERE {scope}'
        deleted = f'SELECT m."organization_id", m."id" FROM {quote(space.owner.table)} AS m WHERE m."is_deleted"'
        hidden = f'{every} AND (c."organization_id", c."owner_id") IN ({deleted})'
        holding_one = f"{every} AND {_is_live(space)} AND {_HOLDS}"
        different = list(dict.fromkeys(terms))
        questions: list[tuple[str, Sequence[Any]]] = [(every, values), (hidden, values)]
        questions += [(holding_one, [*values, *_word(space, term)]) for term in different]
        access = within(space.organization_id)
        [[(all_chunks,)], [(hidden_chunks,)], *holding] = self._records.ask(questions, access=access)
        return Statistics(
            all_chunks - hidden_chunks, {term: rows[0][0] for term, rows in zip(different, holding, strict=True)}
        )

    def _index_settings(self, space: SearchSpace, dimensions: int) -> Mapping[str, str]:
        """How to search by the index; nothing unless an exact search would take too long and the index is there."""
        if dimensions > MOST_DIMENSIONS:
            return {}
        scope, values = self._scope(space)
        some = f'SELECT count(*) FROM (SELECT FROM "chunks" AS c WHERE {scope} LIMIT %s) AS counted'
        [[(count,)], built] = self._records.ask(
            [(some, [*values, self._exact_up_to + 1]), (BUILT, [index_of(space.kind, dimensions)])],
            access=within(space.organization_id),
        )
        return search_settings(*built[0]) if count > self._exact_up_to and built else {}

    def _scope(self, space: SearchSpace) -> tuple[str, list[Any]]:
        """Return the condition for the space's current chunks, and what it binds."""
        read = self._records.compiler.read(Chunk, space.organization_id, space.chunks())
        return read.conditions, read.values


def _worth_asking(statistics: Statistics, limit: int) -> dict[str, float]:
    """The terms to look for and what each is worth, rarest first; very common ones only if there is nothing else."""
    held = sorted((count, term) for term, count in statistics.chunks_with_term.items() if count)
    worth: dict[str, float] = {}
    found = 0
    for count, term in held:
        if count > _COMMON and found >= limit:
            break
        worth[term] = math.log(1 + statistics.chunks / count)
        found += count
    return worth


def _is_live(space: SearchSpace) -> str:
    """Return the condition that the owner of a chunk `c` is not deleted."""
    return f"""NOT EXISTS (
  SELECT 1 FROM {quote(space.owner.table)} AS m
  WHERE m."organization_id" = c."organization_id" AND m."id" = c."owner_id" AND m."is_deleted"
)"""


def _word(space: SearchSpace, term: str) -> tuple[str, str, str, str]:
    return space.organization_id, space.kind, space.namespace, term
