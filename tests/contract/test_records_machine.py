"""Random operations find no difference between a store and the reference."""

import itertools
from pathlib import Path

import pytest

from recollect.ports.records import Records
from recollect.testing.records_machine import run_machine
from tests.contract.stores import STORES

OPERATIONS = 2000


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_random_operations_find_no_difference(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    numbers = itertools.count()

    def make_records() -> Records:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return STORES[name](request, folder).open()

    assert run_machine(make_records, examples=50, steps=50) >= OPERATIONS
