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


LONG = "test_restoring_reverses_exactly_one_deletion|test_hiding_takes_all_that_belongs_to_a_row"
FEW = "organizations|users|sessions|memories"
"""Two tests that read everything, for each of 34 tables, take minutes on DynamoDB's server for tests. `make test` makes
them for these tables there, `make contract` for all, as it does on the other stores."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("CONTRACT_STORES") == "all":
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        is_long = re.search(rf"({LONG})\[dynamodb-(?!({FEW})\])", item.nodeid)
        (left_out if is_long else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
