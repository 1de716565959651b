"""Random operations find no difference between a store and the reference."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.ports.records import Records
from recollect.testing.records_machine import run_machine
from tests.contract.stores import STORES, Store

TIMES = int(os.environ.get("CONTRACT_TIMES", "1"))
"""How much longer than usual: `make contract` does a hundred times as much."""
EXAMPLES, STEPS, LEAST = 40, 50, 2000
"""How many examples of how many steps, and how many operations those are at the least."""


@pytest.fixture
def opened() -> Iterator[list[Store]]:
    stores: list[Store] = []
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("name", [name for name in STORES if name != "in_memory"])
def test_random_operations_find_no_difference(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, opened: list[Store]
) -> None:
    numbers = itertools.count()

    def make_records() -> Records:
        for store in opened:
            store.close()
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        opened[:] = [STORES[name](request, folder)]
        return opened[0].open()

    assert run_machine(make_records, examples=TIMES * EXAMPLES, steps=STEPS) >= TIMES * LEAST
