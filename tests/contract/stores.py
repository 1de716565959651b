"""How the contract suites open each store: empty, and quickly."""

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

import psycopg
import pytest

from recollect.adapters.in_memory import InMemoryRecords
from recollect.adapters.postgres import PostgresOptions, PostgresRecords
from recollect.adapters.sqlite import SqliteRecords
from recollect.adapters.sqlite.connection import SqliteOptions
from recollect.errors import StoreUnavailable
from recollect.ports.records import Records
from recollect.schema.catalog import TABLES
from recollect.testing.postgres_server import PostgresServer


class Store(Protocol):
    """One empty store of some kind, and how to open it."""

    def open(self) -> Records: ...

    def reopen(self) -> Records: ...

    def close(self) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.records = InMemoryRecords()

    def open(self) -> Records:
        return self.records

    def reopen(self) -> Records:
        return self.records

    def close(self) -> None:
        self.records.close()


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "records.db"
        self.opened: list[Records] = []
        shutil.copyfile(empty_sqlite_file(), self.path)

    def open(self) -> Records:
        self.opened.append(SqliteRecords(SqliteOptions(path=self.path)))
        return self.opened[-1]

    def reopen(self) -> Records:
        self.close()
        return self.open()

    def close(self) -> None:
        for records in self.opened:
            records.close()
        self.opened.clear()


@cache
def empty_sqlite_file() -> Path:
    """A file with the schema in it, made once: creating it takes longer than most tests."""
    path = Path(mkdtemp(prefix="recollect-contract-")) / "empty.db"
    SqliteRecords(SqliteOptions(path=path)).close()
    return path


def empty_postgres_database(server: PostgresServer) -> str:
    """The address of one database with the schema in it, emptied."""
    return postgres_database(server).emptied().url


@cache
def postgres_database(server: PostgresServer) -> "Postgres":
    return Postgres(server.create_database())


class Postgres:
    """One database with the schema in it, emptied for each test; its connections are kept from test to test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.records: PostgresRecords | None = None
        PostgresRecords(PostgresOptions(url=url)).close()
        self.cleaner = psycopg.connect(url, autocommit=True)
        self.cleaner.execute("SET session_replication_role = replica")  # neither cascades nor checks: just empty

    def emptied(self) -> "Postgres":
        emptying = [f'DELETE FROM "{name}"' for name in TABLES if name != "schema_versions"]
        self.cleaner.execute(";".join([*emptying, "DELETE FROM schema_versions WHERE version >= 1000"]).encode())
        return self

    def open(self) -> Records:
        if self.records is None:
            self.records = PostgresRecords(PostgresOptions(url=self.url))
        return self.records

    def reopen(self) -> Records:
        self.quit()
        return self.open()

    def close(self) -> None:
        """Keeps the connections, unless the test has closed them."""
        try:
            self.open().head()
        except StoreUnavailable:
            self.records = None

    def quit(self) -> None:
        if self.records is not None:
            self.records.close()
            self.records = None


STORES: Mapping[str, Callable[[pytest.FixtureRequest, Path], Store]] = {
    "in_memory": lambda _, __: InMemory(),
    "sqlite": lambda _, folder: Sqlite(folder),
    "postgres": lambda request, _: request.getfixturevalue("postgres_store").emptied(),
}
