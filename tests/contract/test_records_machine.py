"""Random operations find no difference between a store and the reference."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold.ports.records import Records
from everhold.testing.records_machine import run_machine
from tests.contract.stores import STORES, Store
from tests.exhaustive import TIMES, choose_size

# How many random examples: fewer where each takes long. `make contract` multiplies the exhaustive ones by 100.
EXAMPLES = {"sqlite": 15, "postgres": 12, "duckdb": 6, "dynamodb": 5}
EXHAUSTIVE_EXAMPLES = {"dynamodb": 3}
DEFAULT_EXHAUSTIVE_EXAMPLES = 40
STEPS = 50


@pytest.fixture
def stores_to_close() -> Iterator[list[Store]]:
    stores: list[Store] = []
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("name", [name for name in STORES if name != "in_memory"])
def test_random_operations_find_no_difference(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, stores_to_close: list[Store]
) -> None:
    numbers = itertools.count()

    def make_records() -> Records:
        for store in stores_to_close:
            store.close()
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        stores_to_close[:] = [STORES[name](request, folder)]
        return stores_to_close[0].open()

    exhaustive = EXHAUSTIVE_EXAMPLES.get(name, DEFAULT_EXHAUSTIVE_EXAMPLES)
    examples = TIMES * choose_size(EXAMPLES.get(name, exhaustive), exhaustive)
    # The number of operations of an example is random. Over DynamoDB's few examples it varies more than over thousands.
    least = examples * STEPS * 2 // 3 if name == "dynamodb" else examples * STEPS
    assert run_machine(make_records, examples=examples, steps=STEPS) >= least
