"""How the contract suites open each store: empty, and quickly."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import psycopg
import pytest
from psycopg import sql

from recollect.adapters.in_memory import InMemoryRecords
from recollect.adapters.sqlite import SqliteRecords
from recollect.adapters.sqlite.connection import SqliteOptions
from recollect.ports.records import Records
from recollect.schema.catalog import TABLES
from recollect.testing.postgres_server import PostgresServer


@dataclass
class Store:
    """One empty store of some kind, and how to open it."""

    connect: Callable[[], Records]
    lasts: bool = True
    opened: list[Records] = field(default_factory=list)

    def open(self) -> Records:
        self.opened.append(self.connect())
        return self.opened[-1]

    def reopen(self) -> Records:
        if self.lasts:
            self.close()
            return self.open()
        return self.opened[-1]

    def close(self) -> None:
        for records in self.opened:
            records.close()
        self.opened.clear()


def in_memory(_: pytest.FixtureRequest, __: Path) -> Store:
    return Store(InMemoryRecords, lasts=False)


def sqlite(_: pytest.FixtureRequest, folder: Path) -> Store:
    path = folder / "records.db"
    shutil.copyfile(empty_sqlite_file(), path)
    return Store(lambda: SqliteRecords(SqliteOptions(path=path)))


@cache
def empty_sqlite_file() -> Path:
    """A file with the schema in it, made once: creating it takes longer than most tests."""
    path = Path(mkdtemp(prefix="recollect-contract-")) / "empty.db"
    SqliteRecords(SqliteOptions(path=path)).close()
    return path


def postgres(request: pytest.FixtureRequest, _: Path) -> Store:
    from recollect.adapters.postgres import PostgresOptions, PostgresRecords

    url = empty_postgres_database(request.getfixturevalue("postgres_server"))
    return Store(lambda: PostgresRecords(PostgresOptions(url=url)))


def empty_postgres_database(server: PostgresServer) -> str:
    """The address of one database with the schema in it, emptied."""
    url = postgres_database(server)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # neither cascades nor checks: just empty them
        for name in TABLES:
            if name != "schema_versions":
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
        connection.execute("DELETE FROM schema_versions WHERE version >= 1000")
    return url


@cache
def postgres_database(server: PostgresServer) -> str:
    from recollect.adapters.postgres import PostgresOptions, PostgresRecords

    url = server.create_database()
    PostgresRecords(PostgresOptions(url=url)).close()
    return url


STORES: Mapping[str, Callable[[pytest.FixtureRequest, Path], Store]] = {
    "in_memory": in_memory,
    "sqlite": sqlite,
    "postgres": postgres,
}
