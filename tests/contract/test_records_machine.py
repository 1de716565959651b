"""Random operations find no difference between a store and the reference."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold.model import AccessLog
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.testing.records_machine import run_machine
from tests.contract.stores import STORES, RecordsStore
from tests.exhaustive import TIMES, choose_size

# The number of random operations, smaller on slow stores. `make contract` runs up to a hundred times as many.
OPERATIONS = {"sqlite": 750, "postgres": 600, "duckdb": 300, "dynamodb": 250}
EXHAUSTIVE_OPERATIONS = {"dynamodb": 100}
DEFAULT_EXHAUSTIVE_OPERATIONS = 2000
# The partitioned store is opened with a role that may delete no line of the access log.
PERMANENT: dict[str, tuple[type[Row], ...]] = {"postgres_parted": (AccessLog,)}


@pytest.fixture
def stores_to_close() -> Iterator[list[RecordsStore]]:
    stores: list[RecordsStore] = []
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("name", [name for name in STORES if name != "in_memory"])
def test_random_operations_find_no_difference(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, stores_to_close: list[RecordsStore]
) -> None:
    numbers = itertools.count()

    def make_records() -> Records:
        for store in stores_to_close:
            store.close()
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        stores_to_close[:] = [STORES[name](request, folder)]
        return stores_to_close[0].open()

    exhaustive = EXHAUSTIVE_OPERATIONS.get(name, DEFAULT_EXHAUSTIVE_OPERATIONS)
    operations = TIMES * choose_size(OPERATIONS.get(name, exhaustive), exhaustive)
    performed = run_machine(make_records, operations=operations, permanent=PERMANENT.get(name, ()))
    assert performed >= operations
