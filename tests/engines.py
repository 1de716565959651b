"""Engines for tests: the whole of Recollect but the embedding model, on each store."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recollect import Recollect, parts, settings
from recollect.adapters.in_memory import InMemoryRecords
from recollect.adapters.portable.scanned_vectors import ScannedVectors
from recollect.adapters.portable.scanned_words import ScannedWords
from recollect.model.base import Row
from recollect.parts import Parts
from recollect.ports.candidates import Candidates
from recollect.ports.records import Records
from recollect.recall.hit import Hits
from recollect.schema.catalog import CATALOG
from recollect.schema.rules import key_of
from recollect.testing.fake_embedder import FakeEmbedder
from tests.contract.stores import empty_postgres_database, empty_sqlite_file

STORES = ("sqlite", "postgres", "in_memory")
LASTING = ("sqlite", "postgres")
CALM: dict[str, Any] = {"sqlite": {"synchronous": "NORMAL"}, "log": {"flush_seconds": 3600}}
"""Writes need not survive a power cut, and nothing happens by itself, unless a test asks for it."""


class KeptRecords(InMemoryRecords):
    """A store in memory that several engines may open and close one after the other."""

    def close(self) -> None:
        """Stays open."""


@dataclass
class Store:
    """One empty store of some kind, and the engines opened on it."""

    name: str
    storage: str
    records: Records | None = None
    opened: list[Recollect] = field(default_factory=list)

    def open(self, embedder: Any = None, storage: str | None = None, **given: Any) -> Recollect:
        """One more engine on the store."""
        chosen = settings.load(storage or self.storage, **{**CALM, **given})
        engine = Recollect(self._parts(chosen, embedder or FakeEmbedder()))
        self.opened.append(engine)
        return engine

    def _parts(self, chosen: settings.Settings, embedder: Any) -> Parts:
        if self.records is not None:
            records, candidates = self.records, Candidates(ScannedWords(self.records), ScannedVectors(self.records))
        else:
            records, candidates = parts.open_store(chosen)
        return parts.assemble(chosen, records, candidates, embedder, embedder)

    def close(self) -> None:
        for engine in self.opened:
            engine.close()


def make_store(name: str, request: pytest.FixtureRequest, folder: Path) -> Store:
    if name == "in_memory":
        return Store(name, "memory://", KeptRecords())
    if name == "postgres":
        return Store(name, empty_postgres_database(request.getfixturevalue("postgres_server")))
    path = folder / "memories.db"
    shutil.copyfile(empty_sqlite_file(), path)
    return Store(name, str(path))


def records_of(engine: Recollect) -> Records:
    return engine._parts.records


def all_rows(engine: Recollect, *, without: Iterable[type[Row]] = ()) -> dict[str, dict[tuple[Any, ...], Row]]:
    """Every row of every table by its key, once all waiting lines are written."""
    engine.flush()
    left_out = set(without)
    return {
        table.name: {key_of(table, row): row for row in records_of(engine).scan(entity, None, deleted=True)}
        for entity, table in CATALOG.items()
        if entity not in left_out
    }


def ranking(hits: Hits) -> list[tuple[str, float]]:
    return [(hit.memory.id, hit.score) for hit in hits]


def texts(hits: Hits) -> list[str]:
    return [hit.memory.text for hit in hits]
