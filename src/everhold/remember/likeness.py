"""Which memories of a scope have nearly the same vector, by the vectors that are stored."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.facts.conflicts import LEAST_LIKENESS
from everhold.model import Chunk, Memory, Scope
from everhold.model.memory import REPEATABLE_KINDS
from everhold.ports.records import Records
from everhold.remember.twins import ENDS, any_past
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Op, Where
from everhold.text.terms import extract_terms

MOST = 10_000
"""Up to how many memories each is compared with each."""

_ROWS_AT_ONCE = 256
_BATCH = 500
_WHOSE = ("project_id", "user_id", "agent_id", "session_id", "namespace", "kind", "speaker")
_DIGITS = re.compile(r"\d+")


class Likeness(NamedTuple):
    """Two memories and the cosine of their vectors."""

    first: str
    second: str
    cosine: float


class _Told(NamedTuple):
    memory_id: str
    text: str


def alike(records: Records, scope: Scope, model: str, now: datetime) -> tuple[list[Likeness], bool]:
    """Pairs of memories that are of the same dimensions, kind and speaker and tell the same numbers, and whose
    vectors are alike; and whether each was compared with each."""
    found: list[Likeness] = []
    exhaustive = True
    for group in _groups(records, scope, now):
        ordered = group if len(group) <= MOST else sorted(group, key=lambda one: sorted(extract_terms(one.text)))
        exhaustive = exhaustive and len(group) <= MOST
        for start in range(0, len(ordered), MOST):
            found += _compared(records, scope, model, [one.memory_id for one in ordered[start : start + MOST]])
    return found, exhaustive


def _groups(records: Records, scope: Scope, now: datetime) -> list[list[_Told]]:
    """The memories that hold, those together of which two may say the same."""
    groups: dict[tuple[Any, ...], list[_Told]] = defaultdict(list)
    names = ("id", "text", *_WHOSE, *ENDS)
    for memory_id, text, *values in records.columns(Memory, scope.organization, names, make_scope_conditions(scope)):
        whose, ends = values[: len(_WHOSE)], values[len(_WHOSE) :]
        if whose[_WHOSE.index("kind")] not in REPEATABLE_KINDS and text and not any_past(ends, now):
            groups[*whose, tuple(_DIGITS.findall(text))].append(_Told(memory_id, text))
    return [group for group in groups.values() if len(group) > 1]


def _compared(records: Records, scope: Scope, model: str, ids: Sequence[str]) -> Iterator[Likeness]:
    vectors = _vectors(records, scope, model, ids)
    if not vectors:
        return
    names = list(vectors)
    matrix = _matrix(list(vectors.values()))
    for start in range(0, len(names), _ROWS_AT_ONCE):
        cosines = matrix[start : start + _ROWS_AT_ONCE] @ matrix[start:].T
        for row, column in np.argwhere(np.triu(cosines >= LEAST_LIKENESS, k=1)):
            yield Likeness(names[start + row], names[start + column], float(cosines[row, column]))


def _matrix(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    return np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), -1).astype(np.float32)


def _vectors(records: Records, scope: Scope, model: str, ids: Sequence[str]) -> dict[str, bytes]:
    """The vectors of those memories that are one chunk: of longer ones no vector stands for the whole."""
    found: dict[str, bytes] = {}
    pieces: Counter[str] = Counter()
    for start in range(0, len(ids), _BATCH):
        where = [
            Where("owner_id", Op.IN, list(ids[start : start + _BATCH])),
            Where("owner_kind", Op.EQ, "memory"),
            Where("model", Op.EQ, model),
            Where("known_to", Op.EQ, None),
        ]
        for owner_id, vector in records.columns(Chunk, scope.organization, ("owner_id", "vector"), where):
            pieces[owner_id] += 1
            if vector is not None:
                found[owner_id] = vector
    sizes = Counter(map(len, found.values()))
    size = sizes.most_common(1)[0][0] if sizes else 0  # a vector of another length is damaged; doctor reports it
    whole = {name: vector for name, vector in found.items() if len(vector) == size and size % 2 == 0}
    return {name: vector for name, vector in whole.items() if pieces[name] == 1}
