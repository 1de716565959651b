"""The index of a backup: a base and its changes say the same as the list of all rows."""

import random

import numpy as np
import pytest

from everhold.backups.index import DigestedRows, TableIndex, combine
from everhold.errors import StoreDamaged
from everhold.ports.row_packing import Digests

Model = dict[int, tuple[int, int]]  # the hash and the number of each row, by its key


def make_digests(values: list[int]) -> Digests:
    return np.array(values, np.uint64)


def make_rows(model: Model, *, is_tracked: bool) -> DigestedRows:
    numbers = make_digests([number for _, number in model.values()]) if is_tracked else None
    rows = DigestedRows(make_digests(list(model)), make_digests([value for value, _ in model.values()]), numbers)
    return combine([rows])


@pytest.mark.parametrize("is_tracked", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_an_index_with_changes_is_that_of_the_changed_rows(seed: int, is_tracked: bool) -> None:
    rng = random.Random(seed)
    model: Model = {rng.getrandbits(64): (rng.getrandbits(64), number) for number in range(200)}
    base = make_rows(model, is_tracked=is_tracked)
    index = TableIndex.of(base)
    for step in range(12):
        touched_keys = rng.sample(list(model), 5)
        before, added = {key: model.pop(key) for key in touched_keys}, {rng.getrandbits(64): (step, 1000 + step)}
        # Of the touched rows, one is unchanged, one changed, one was deleted and added again; two were deleted.
        same, changed, added_again = touched_keys[:3]
        after = {same: before[same], changed: (step, before[changed][1]), added_again: (step, 2000 + step)} | added
        numbers = make_digests([number for _, number in before.values()])
        stored = make_rows(before, is_tracked=is_tracked)
        assert index.find_by_keys(stored.keys).equals(stored)
        if is_tracked:
            assert index.find_by_numbers(numbers).equals(stored)
        new_rows = make_rows(after, is_tracked=is_tracked)
        assert index.find_changed(new_rows.keys, new_rows.hashes).tolist() == (new_rows.keys != same).tolist()
        model |= after
        index = TableIndex.decode(base, index.replace(stored, new_rows).encode_changes())
        expected = make_rows(model, is_tracked=is_tracked)
        assert index.merge().equals(expected)
        assert (len(index), index.hash, index.has_unique_keys()) == (len(model), expected.hash, True)
        assert sorted(index.list_keys().tolist()) == sorted(model)
    assert index.has_many_changes
    assert index.replace(expected, expected) is index


def test_a_key_that_two_rows_have_is_noticed() -> None:
    index = TableIndex.of(make_rows({1: (1, 1), 2: (2, 2)}, is_tracked=True))
    nothing = index.base.select(np.zeros(2, bool))
    assert not index.replace(nothing, make_rows({2: (3, 3)}, is_tracked=True)).has_unique_keys()


@pytest.mark.parametrize(
    "changes",
    [b"", b"\1" * 8, (1).to_bytes(8, "little"), bytes(12), bytes(8) + (5).to_bytes(8, "little")],
    ids=["empty", "too many rows", "no rows", "half a key", "a key that the base lacks"],
)
def test_changes_that_do_not_fit_their_base_are_refused(changes: bytes) -> None:
    with pytest.raises(StoreDamaged):
        TableIndex.decode(make_rows({1: (1, 1)}, is_tracked=True), changes)
