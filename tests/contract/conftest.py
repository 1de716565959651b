"""What the contract suites share."""

import os
import re
from collections.abc import Iterator

import pytest

from recollect.testing.postgres_server import PostgresServer
from tests.contract.stores import Postgres, parted_postgres_database, postgres_database


@pytest.fixture(scope="session")
def postgres_store(postgres_server: PostgresServer) -> Iterator[Postgres]:
    store = postgres_database(postgres_server)
    yield store
    store.quit()


@pytest.fixture(scope="session")
def parted_postgres_store(postgres_server: PostgresServer) -> Iterator[Postgres]:
    store = parted_postgres_database(postgres_server)
    yield store
    store.quit()


PER_TABLE = (
    "test_restoring_reverses_exactly_one_deletion|test_hiding_takes_all_that_belongs_to_a_row|"
    "test_a_reference_must_be_there|test_purging_what_is_referred_to|test_values_out_of_bounds_are_refused"
)
FEW = "organizations|users|sessions|memories|chunks|action_proposals"
"""On DuckDB and DynamoDB these rules are kept by `schema/planning.py`, which the reference in memory is held to for
every table. `make test` holds the two to them for these tables, `make contract` for all."""
LONG = r"test_five_thousand_rows_in_one_commit\[dynamodb\]|test_pages_lose_and_repeat_nothing\[dynamodb-descending"
"""Take long on DynamoDB's server for tests, so there `make contract` alone runs them."""
LEFT_OUT = re.compile(rf"({PER_TABLE})\[(duckdb|dynamodb)-(?!({FEW})[.\]])|{LONG}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("CONTRACT_STORES") == "all":
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if LEFT_OUT.search(item.nodeid) else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
