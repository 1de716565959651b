"""Open engines for tests on each store. They are complete except for the embedding model, which is a fake one."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
import pytest

from everhold import Everhold, parts, settings, stores
from everhold.adapters.in_memory import InMemoryRecords
from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.portable.scanned_words import ScannedWords
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.embedders import EmbeddingParts
from everhold.model.base import Row
from everhold.parts import Parts
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes
from everhold.recall.hit import Hits
from everhold.schema.catalog import CATALOG, TABLES, get_key
from everhold.testing.fake_embedder import FakeEmbedder
from tests.servers.dynamodb import CREDENTIALS
from tests.servers.postgres import PostgresServer

STORES = ("sqlite", "postgres", "in_memory")
# The stores that keep their rows when an engine is closed.
LASTING = ("sqlite", "postgres")
EVERY_STORE = ("in_memory", "sqlite", "postgres", "duckdb", "dynamodb")
# Settings for fast and predictable tests: writes need not survive a power cut, and no background thread writes.
CALM: dict[str, Any] = {"sqlite": {"synchronous": "NORMAL"}, "log": {"flush_seconds": 3600}}

_TABLE_NUMBERS = itertools.count()


class KeptRecords(InMemoryRecords):
    """A store in memory that several engines may open and close one after the other."""

    def close(self) -> None:
        """Do nothing, so that the next engine finds the rows."""


@dataclass
class Store:
    """A store of the kind `name`, and the engines that were opened on it."""

    name: str
    storage: str
    records: Records | None = None
    opened: list[Everhold] = field(default_factory=list)

    def open(
        self, embedder: Any = None, storage: str | None = None, also: Sequence[Any] = (), **values: Any
    ) -> Everhold:
        """Open another engine on the store; `also` are the embedders of further models."""
        loaded_settings = settings.load(storage or self.storage, **{**CALM, **values})
        engine = Everhold(self._assemble_parts(loaded_settings, embedder or FakeEmbedder(), also))
        self.opened.append(engine)
        return engine

    def _assemble_parts(self, loaded_settings: settings.Settings, embedder: Any, also: Sequence[Any]) -> Parts:
        if self.records is not None:
            scanned = SearchIndexes(ScannedWords(self.records), ScannedVectors(self.records))
            records, candidates = stores.choose_vectors(loaded_settings, self.records, scanned)
        else:
            records, candidates = stores.open_store(loaded_settings)
        beside = [EmbeddingParts(model, model) for model in also]
        return parts.assemble(loaded_settings, records, candidates, embedder, embedder, beside=beside)

    def close(self) -> None:
        for engine in self.opened:
            engine.close()


@cache
def _make_empty_file() -> Path:
    """Return a SQLite file with the schema. It is created once, because creating it takes longer than most tests."""
    path = Path(mkdtemp(prefix="everhold-flows-")) / "empty.db"
    SqliteRecords(SqliteOptions(path=path)).close()
    return path


@dataclass(frozen=True)
class _Database:
    """A PostgreSQL database with the schema, for all tests of a process, and a connection that empties it."""

    url: str
    cleaner: psycopg.Connection

    def empty(self) -> str:
        """Delete every row and return the address. One round trip is enough, because most tests begin with this."""
        self.cleaner.execute(";".join(f'DELETE FROM "{name}"' for name in TABLES if name != "schema_versions").encode())
        return self.url


@cache
def _make_database(server: PostgresServer) -> _Database:
    url = server.create_database()
    PostgresRecords(PostgresOptions(url=url)).close()
    cleaner = psycopg.connect(url, autocommit=True)
    cleaner.execute("SET session_replication_role = replica")  # turns cascades and constraints off
    return _Database(url, cleaner)


def make_store(
    name: str, request: pytest.FixtureRequest, folder: Path, patch: pytest.MonkeyPatch | None = None
) -> Store:
    """Make an empty store. A fixture that outlives one test passes its own `patch` of the environment."""
    if name == "in_memory":
        return Store(name, "memory://", KeptRecords())
    if name == "postgres":
        return Store(name, _make_database(request.getfixturevalue("postgres_server")).empty())
    if name == "dynamodb":
        monkeypatch = patch or request.getfixturevalue("monkeypatch")
        monkeypatch.setenv("EVERHOLD_DYNAMODB__ENDPOINT", request.getfixturevalue("dynamodb_server").url)
        for variable, value in CREDENTIALS.items():
            monkeypatch.setenv(variable.upper(), value)
        return Store(name, f"dynamodb://eu-north-1/flow{next(_TABLE_NUMBERS)}")
    if name == "duckdb":
        return Store(name, f"duckdb:///{folder / 'memories.duckdb'}")
    return Store(name, str(copy_empty_file(folder / "memories.db")))


def copy_empty_file(path: Path) -> Path:
    """Create a SQLite file with the schema and without rows."""
    shutil.copyfile(_make_empty_file(), path)
    return path


def get_parts(engine: Everhold) -> Parts:
    return engine._parts


def get_records(engine: Everhold) -> Records:
    return engine._parts.records


def read_all_rows(engine: Everhold, *, without: Iterable[type[Row]] = ()) -> dict[str, dict[tuple[Any, ...], Row]]:
    """Write waiting log lines, and return every row of every table by its key."""
    engine.flush()
    left_out = set(without)
    return {
        table.name: {get_key(row): row for row in get_records(engine).scan(entity, None, deleted=True)}
        for entity, table in CATALOG.items()
        if entity not in left_out
    }


def find_tables_with(engine: Everhold, word: str) -> list[str]:
    """Return the names of the tables with a row that contains the word in any field."""
    tables = read_all_rows(engine).items()
    return [name for name, rows in tables if any(word.lower() in repr(row.__dict__).lower() for row in rows.values())]


def ranking(hits: Hits) -> list[tuple[str, float]]:
    return [(hit.memory.id, hit.score) for hit in hits]


def texts(hits: Hits) -> list[str]:
    return [hit.memory.text for hit in hits]


def fetch_all_pages(fetch: Callable[[str | None], Any]) -> list[Any]:
    """Return all pages in order; fail if there are more than 1,000."""
    pages = [fetch(None)]
    while pages[-1].cursor is not None:
        assert len(pages) < 1000, "the pages do not end"
        pages.append(fetch(pages[-1].cursor))
    return pages
