"""Random operations find no difference between a store and the reference."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.ports.records import Records
from recollect.testing.records_machine import run_machine
from tests.contract.stores import STORES, Store

OPERATIONS = 2000


@pytest.fixture
def opened() -> Iterator[list[Store]]:
    stores: list[Store] = []
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
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

    assert run_machine(make_records, examples=60, steps=50) >= OPERATIONS
