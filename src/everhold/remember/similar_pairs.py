"""Find the memories of a scope whose stored vectors are nearly the same."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.facts.conflicts import MIN_SIMILARITY
from everhold.model import Chunk, Memory, Scope
from everhold.model.memory import REPEATABLE_KINDS
from everhold.ports.records import Records
from everhold.remember.duplicates import ENDS, has_past
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Condition, Op, Where
from everhold.text.terms import extract_terms

# The size of the largest group in which every memory is compared with every other. The work grows with its square.
MAX_COMPARED = 10_000

# The number of rows of cosines that are computed at once: with MAX_COMPARED columns of 4 bytes, they take 10 MB.
_ROWS_AT_ONCE = 256
_BATCH = 500
_GROUP_COLUMNS = ("project_id", "user_id", "agent_id", "session_id", "namespace", "kind", "speaker")
_DIGITS = re.compile(r"\d+")


class SimilarPair(NamedTuple):
    """The ids of two memories and the cosine of their vectors."""

    first: str
    second: str
    cosine: float


class _Candidate(NamedTuple):
    memory_id: str
    text: str


def find_similar_pairs(
    records: Records, scope: Scope, model: str, now: datetime, where: Sequence[Condition] = ()
) -> tuple[list[SimilarPair], bool]:
    """Return the pairs of memories with nearly the same vector, and whether all possible pairs were compared.

    Both memories of a pair meet `where` and have the same owner, namespace, kind, speaker and numbers.
    """
    pairs: list[SimilarPair] = []
    exhaustive = True
    for group in _group_memories(records, scope, now, where):
        # A larger group is compared in parts. It is sorted by terms, so that similar texts are mostly in the same part.
        ordered_group = (
            group
            if len(group) <= MAX_COMPARED
            else sorted(group, key=lambda candidate: sorted(extract_terms(candidate.text)))
        )
        exhaustive = exhaustive and len(group) <= MAX_COMPARED
        for start in range(0, len(ordered_group), MAX_COMPARED):
            pairs += _compare(
                records,
                scope,
                model,
                [candidate.memory_id for candidate in ordered_group[start : start + MAX_COMPARED]],
            )
    return pairs, exhaustive


def _group_memories(
    records: Records, scope: Scope, now: datetime, where: Sequence[Condition]
) -> list[list[_Candidate]]:
    """Return the groups of current memories that may be duplicates; those of different groups cannot be."""
    groups: dict[tuple[Any, ...], list[_Candidate]] = defaultdict(list)
    names = ("id", "text", *_GROUP_COLUMNS, *ENDS)
    conditions = [*make_scope_conditions(scope), *where]
    for memory_id, text, *values in records.columns(Memory, scope.organization, names, conditions):
        group_values, ends = values[: len(_GROUP_COLUMNS)], values[len(_GROUP_COLUMNS) :]
        if group_values[_GROUP_COLUMNS.index("kind")] not in REPEATABLE_KINDS and text and not has_past(ends, now):
            groups[*group_values, tuple(_DIGITS.findall(text))].append(_Candidate(memory_id, text))
    return [group for group in groups.values() if len(group) > 1]


def _compare(records: Records, scope: Scope, model: str, ids: Sequence[str]) -> Iterator[SimilarPair]:
    vectors = _read_vectors(records, scope, model, ids)
    if not vectors:
        return
    memory_ids = list(vectors)
    matrix = _stack_vectors(list(vectors.values()))
    for start in range(0, len(memory_ids), _ROWS_AT_ONCE):
        cosines = matrix[start : start + _ROWS_AT_ONCE] @ matrix[start:].T
        # Above the diagonal only: every pair once, and no memory with itself.
        for row, column in np.argwhere(np.triu(cosines >= MIN_SIMILARITY, k=1)):
            yield SimilarPair(memory_ids[start + row], memory_ids[start + column], float(cosines[row, column]))


def _stack_vectors(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    return np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), -1).astype(np.float32)


def _read_vectors(records: Records, scope: Scope, model: str, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the vectors of the memories with a single chunk. A longer memory has no vector of its whole text."""
    vectors: dict[str, bytes] = {}
    chunk_counts: Counter[str] = Counter()
    for start in range(0, len(ids), _BATCH):
        where = [
            Where("owner_id", Op.IN, list(ids[start : start + _BATCH])),
            Where("owner_kind", Op.EQ, "memory"),
            Where("model", Op.EQ, model),
            Where("known_to", Op.EQ, None),
        ]
        for owner_id, vector in records.columns(Chunk, scope.organization, ("owner_id", "vector"), where):
            chunk_counts[owner_id] += 1
            if vector is not None:
                vectors[owner_id] = vector
    sizes = Counter(map(len, vectors.values()))
    # A vector whose length differs from most is damaged and left out. `doctor` reports it.
    size = sizes.most_common(1)[0][0] if sizes else 0
    valid_vectors = {
        memory_id: vector for memory_id, vector in vectors.items() if len(vector) == size and size % 2 == 0
    }
    return {memory_id: vector for memory_id, vector in valid_vectors.items() if chunk_counts[memory_id] == 1}
