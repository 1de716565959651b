"""Open an empty store of each kind for the contract suites, quickly."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

import psycopg
import pytest

from everhold.adapters.duckdb import DuckdbOptions, DuckdbRecords
from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
from everhold.adapters.files import FileBlobs
from everhold.adapters.in_memory import InMemoryRecords
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.adapters.sqlite import SqliteRecords
from everhold.adapters.sqlite.connection import SqliteOptions
from everhold.errors import StoreUnavailable
from everhold.ports.records import Records
from everhold.schema.catalog import TABLES
from tests.exhaustive import IS_EXHAUSTIVE
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer


class RecordsStore(Protocol):
    """An empty store of one kind, with functions that open, reopen and close it."""

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


class File:
    """A store in one file, which begins as a copy of an empty file."""

    def __init__(self, path: Path, empty: Path, make: Callable[[Path], Records]) -> None:
        self.path, self.make = path, make
        self.opened: list[Records] = []
        shutil.copyfile(empty, path)

    def open(self) -> Records:
        self.opened.append(self.make(self.path))
        return self.opened[-1]

    def reopen(self) -> Records:
        self.close()
        return self.open()

    def close(self) -> None:
        for records in self.opened:
            records.close()
        self.opened.clear()


def make_sqlite_store(folder: Path) -> File:
    return File(folder / "records.db", get_empty_sqlite_file(), lambda path: SqliteRecords(SqliteOptions(path=path)))


def make_duckdb_store(folder: Path) -> File:
    return File(
        folder / "records.duckdb",
        get_empty_duckdb_file(),
        lambda path: DuckdbRecords(DuckdbOptions(path=path, threads=1)),
    )


@cache
def get_empty_sqlite_file() -> Path:
    """Return a file with the schema. It is made once, because creating it takes longer than most tests."""
    path = Path(mkdtemp(prefix="everhold-contract-")) / "empty.db"
    SqliteRecords(SqliteOptions(path=path)).close()
    return path


def get_empty_postgres_database(server: PostgresServer) -> str:
    """Return the address of a database that has the schema and no rows."""
    return get_postgres_database(server).empty().url


@cache
def get_postgres_database(server: PostgresServer) -> "Postgres":
    return Postgres(server.create_database())


@cache
def get_partitioned_database(server: PostgresServer) -> "Postgres":
    """Return a database whose large tables are partitioned."""
    server.create_role("application")
    url = server.create_database()
    role_url = url.replace("postgres@", "application@")
    return Postgres(url, PostgresOptions(role_url, row_security=True, owner_url=url, partitions="month"))


class Postgres:
    """One database with the schema, which is emptied for each test. Its connections are kept between tests."""

    def __init__(self, url: str, options: PostgresOptions | None = None) -> None:
        self.url = url
        self.options = options or PostgresOptions(url=url)
        self.records: PostgresRecords | None = None
        PostgresRecords(self.options).close()
        self.cleaner = psycopg.connect(url, autocommit=True)
        self.cleaner.execute("SET session_replication_role = replica")  # turns cascades and constraints off

    def empty(self) -> "Postgres":
        taken_tables = self.cleaner.execute(
            "SELECT tablename FROM pg_tables WHERE tablename LIKE 'taken!_%' ESCAPE '!'"
        )
        names = [*TABLES, *(name for (name,) in taken_tables.fetchall())]
        emptying = [f'DELETE FROM "{name}"' for name in names if name != "schema_versions"]
        self.cleaner.execute(";".join([*emptying, "DELETE FROM schema_versions WHERE version >= 1000"]).encode())
        return self

    def open(self) -> Records:
        if self.records is None:
            self.records = PostgresRecords(self.options)
        return self.records

    def reopen(self) -> Records:
        self.quit()
        return self.open()

    def close(self) -> None:
        """Keep the connections, unless the test has closed them."""
        try:
            self.open().head()
        except StoreUnavailable:
            self.records = None

    def quit(self) -> None:
        if self.records is not None:
            self.records.close()
            self.records = None


@cache
def get_empty_duckdb_file() -> Path:
    """Return a file with the schema. It is made once, because creating it takes longer than most tests."""
    path = Path(mkdtemp(prefix="everhold-contract-")) / "empty.duckdb"
    DuckdbRecords(DuckdbOptions(path=path)).close()
    return path


class Duckdb:
    """One file with the schema. It is emptied for each test and kept open, because opening takes longer than a test."""

    def __init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="everhold-contract-"))
        self.file = make_duckdb_store(self.folder)
        self.records: Records | None = None

    def empty(self) -> "Duckdb":
        records = self.open()
        assert isinstance(records, DuckdbRecords)
        with records._database.cursor() as cursor:
            filled = cursor.execute("SELECT table_name FROM duckdb_tables() WHERE estimated_size > 0").fetchall()
            emptying = [f'DELETE FROM "{name}"' for (name,) in filled if name in TABLES and name != "schema_versions"]
            cursor.execute(";".join([*emptying, "DELETE FROM schema_versions WHERE version >= 1000"]))
        return self

    def open(self) -> Records:
        if self.records is None:
            self.records = self.file.open()
        return self.records

    def reopen(self) -> Records:
        self.records = self.file.reopen()
        return self.records

    def close(self) -> None:
        """Keep the file open, unless the test has closed it."""
        try:
            self.open().head()
        except StoreUnavailable:
            self.records = None

    def quit(self) -> None:
        self.file.close()
        shutil.rmtree(self.folder)


class Dynamo:
    """One table, which is created again for each test. Its connections are kept between tests."""

    def __init__(self, server: DynamoServer) -> None:
        self.server = server
        self.options = DynamoOptions(
            region="eu-north-1", table="contract", endpoint=server.url, seconds=60, credentials=CREDENTIALS
        )
        self.blobs = FileBlobs("memory://contract")
        self.records: DynamoRecords | None = None

    def empty(self) -> "Dynamo":
        self.server.reset()
        if self.records is not None:
            self.records.prepare()
        return self

    def open(self) -> Records:
        if self.records is None:
            self.records = DynamoRecords(self.options, self.blobs)
        return self.records

    def reopen(self) -> Records:
        self.quit()
        return self.open()

    def close(self) -> None:
        """Keep the connections, unless the test has closed them."""
        try:
            self.open().head()
        except StoreUnavailable:
            self.records = None

    def quit(self) -> None:
        if self.records is not None:
            self.records.close()
            self.records = None


@cache
def get_dynamodb_table(server: DynamoServer) -> Dynamo:
    return Dynamo(server)


STORES: dict[str, Callable[[pytest.FixtureRequest, Path], RecordsStore]] = {
    "in_memory": lambda _, __: InMemory(),
    "sqlite": lambda _, folder: make_sqlite_store(folder),
    "postgres": lambda request, _: request.getfixturevalue("postgres_store").empty(),
    "duckdb": lambda request, _: request.getfixturevalue("duckdb_store").empty(),
    "dynamodb": lambda request, _: get_dynamodb_table(request.getfixturevalue("dynamodb_server")).empty(),
}
if IS_EXHAUSTIVE:  # PostgreSQL with partitioned tables
    STORES["postgres_parted"] = lambda request, _: request.getfixturevalue("postgres_partitioned_store").empty()
