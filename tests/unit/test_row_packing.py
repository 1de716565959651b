"""Digests of packed rows: later versions must compute the same, or the next backup stores every row again."""

from typing import Any

import pytest

from everhold.adapters.packing import MessagePacking
from everhold.ports.row_packing import RowShape

# Each digest was computed by the first version that made backups.
KEYED = RowShape(key=(0, 1), generated=None)
NUMBERED = RowShape(key=(1,), generated=1)
WITHOUT_NUMBER = 15412256359439156424
CASES: list[tuple[RowShape, tuple[Any, ...], int, int]] = [
    (KEYED, ("org", "id1", 1, None, "é", b"\x00", 0.5), 10504537440614552246, 2008972796241935529),
    (NUMBERED, ("org", 5, "text"), 5, WITHOUT_NUMBER),
    (NUMBERED, ("org", 200, "text"), 200, WITHOUT_NUMBER),
    (NUMBERED, ("org", 70000, "text"), 70000, WITHOUT_NUMBER),
    (NUMBERED, ("org", 7, *range(15)), 7, 6859572339925718460),
]


@pytest.mark.parametrize(("shape", "row", "key", "digest"), CASES)
def test_digests_are_those_of_earlier_versions(shape: RowShape, row: tuple[Any, ...], key: int, digest: int) -> None:
    packer = MessagePacking().make_packer(shape)
    packer.add(row)
    packed = packer.take()
    assert (packed.keys.tolist(), packed.hashes.tolist()) == ([key], [digest])
    assert not packer.take().items
