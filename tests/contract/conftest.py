"""Stores that many contract tests share, because creating them takes long."""

from collections.abc import Iterator

import pytest

from tests.contract.stores import Duckdb, Postgres, get_partitioned_database, get_postgres_database
from tests.servers.postgres import PostgresServer


@pytest.fixture(scope="session")
def duckdb_store() -> Iterator[Duckdb]:
    store = Duckdb()
    yield store
    store.quit()


@pytest.fixture(scope="session")
def postgres_store(postgres_server: PostgresServer) -> Iterator[Postgres]:
    store = get_postgres_database(postgres_server)
    yield store
    store.quit()


@pytest.fixture(scope="session")
def postgres_partitioned_store(postgres_server: PostgresServer) -> Iterator[Postgres]:
    store = get_partitioned_database(postgres_server)
    yield store
    store.quit()
