"""Read legacy views as a report does: with the driver of the database and without Everhold."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import numpy as np
import psycopg

from everhold.schema.catalog import TABLES
from everhold.schema.legacy_views.presets import PRESETS
from everhold.schema.sql import quote
from everhold.schema.table import Kind
from tests.engines import Store

ViewRow = dict[str, Any]
SQL_STORES = ("sqlite", "duckdb", "postgres")


@dataclass
class Report:
    """A connection of a report. Of Everhold, it uses only the script that it runs first."""

    store: Store
    script: str = ""

    def query(self, sql: str, *values: Any) -> list[ViewRow]:
        """Return the rows of a query with `?` for each value. The engine on a DuckDB file must be closed."""
        match self.store.name:
            case "sqlite":
                connection: Any = sqlite3.connect(f"file:{self.store.storage}?mode=ro", uri=True)
                connection.executescript(self.script)
            case "duckdb":
                connection = duckdb.connect(self.store.storage.removeprefix("duckdb:///"), read_only=True)
                connection.execute(self.script or "SELECT 1")
            case _:
                connection = psycopg.connect(self.store.storage, autocommit=True)
                connection.execute((self.script or "SELECT 1").encode())
                sql = sql.replace("?", "%s")
        try:
            cursor = connection.execute(sql.encode() if self.store.name == "postgres" else sql, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        finally:
            connection.close()

    def read(self, preset: str, view: str) -> list[ViewRow]:
        """Return the rows of a view that is found under its original name, as the values that a test compares."""
        [definition] = [candidate for candidate in PRESETS[preset].views if candidate.name == view]
        rows = self.query(f"SELECT * FROM {quote(view)}")
        kinds = _find_kinds(definition.rows[0])
        return [{name: _normalise(kinds[name], value) for name, value in row.items()} for row in rows]


def _find_kinds(rows: Any) -> Mapping[str, Kind]:
    columns = TABLES[rows.table].by_name
    return {
        name: columns[source].kind if isinstance(source, str) else getattr(source, "kind", Kind.TEXT)
        for name, source in rows.columns.items()
    }


def _normalise(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case Kind.JSON:
            return json.loads(value) if isinstance(value, str) else value
        case Kind.TIME:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case Kind.BOOLEAN:
            return {0: False, 1: True}[value]
        case Kind.VECTOR if isinstance(value, bytes):
            return np.frombuffer(value, "<f2").tolist()
        case Kind.VECTOR if isinstance(value, str):  # of pgvector
            return json.loads(value)
        case _:
            return value
