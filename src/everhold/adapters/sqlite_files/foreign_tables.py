"""Read the rows of a SQLite file that another program wrote and that is not trusted."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from everhold.errors import UnreadableFile

# The largest value of a row that is read.
_MAX_VALUE_BYTES = 16_000_000
_CACHE_KILOBYTES = 8_000
# The types that programs declare for columns with text or JSON.
_TEXT_TYPES = ("CHAR", "CLOB", "TEXT", "JSON")


class SqliteForeignTables:
    """The tables of a SQLite file."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection, self._name = connection, name

    @cached_property
    def columns(self) -> Mapping[str, Sequence[str]]:
        # Views and virtual tables are left out: they could run code, and no supported system writes any.
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        names = [
            name
            for name, sql in self._run(query)
            if isinstance(name, str) and "VIRTUAL" not in str(sql)[:60].upper() and not name.startswith("sqlite_")
        ]
        return {name: [str(row[1]) for row in self._run(f"PRAGMA table_info({_quote(name)})")] for name in names}

    def read_rows(self, table: str, order: Sequence[str] = ()) -> Iterator[Mapping[str, Any]]:
        if table not in self.columns:
            raise UnreadableFile(
                f"the database {self._name!r} has no table {table!r}", remedy="check which program wrote it"
            )
        columns = self.columns[table]
        order_columns = [name for name in order if name in columns or (name == "rowid" and self._has_row_ids(table))]
        ordering = f" ORDER BY {', '.join(map(_quote, order_columns))}" if order_columns else ""
        query = f"SELECT {', '.join(map(_quote, columns))} FROM {_quote(table)}{ordering}"
        text_columns = self._list_text_columns(table)
        for values in self._run(query):
            row = dict(zip(columns, values, strict=True))
            # Some programs pass encoded text, so SQLite stores bytes in a column of text.
            yield row | {name: _decode_text(row[name]) for name in text_columns if isinstance(row[name], bytes)}

    def count_rows(self, table: str) -> int:
        return int(next(self._run(f"SELECT count(*) FROM {_quote(table)}"))[0])

    def _has_row_ids(self, table: str) -> bool:
        try:
            self._connection.execute(f"SELECT rowid FROM {_quote(table)} LIMIT 0").close()
        except sqlite3.OperationalError:
            return False
        return True

    def _list_text_columns(self, table: str) -> list[str]:
        columns = self._run(f"PRAGMA table_info({_quote(table)})")
        return [str(row[1]) for row in columns if any(word in str(row[2]).upper() for word in _TEXT_TYPES)]

    def _run(self, query: str) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query)
        except (sqlite3.Error, OverflowError) as error:
            raise UnreadableFile(
                f"the database {self._name!r} cannot be read: {error}", remedy="repair it, or copy it again"
            ) from error


@contextmanager
def open_foreign_tables(path: Path) -> Iterator[SqliteForeignTables]:
    """Open a SQLite file read-only, without running anything that its schema names."""
    connection = _connect(path)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        connection.text_factory = _decode
        for pragma in ("trusted_schema = OFF", "query_only = ON", f"cache_size = -{_CACHE_KILOBYTES}", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        yield SqliteForeignTables(connection, path.name)
    except sqlite3.Error as error:
        raise UnreadableFile(
            f"the database {path.name!r} cannot be read: {error}", remedy="repair it, or copy it again"
        ) from error
    finally:
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database of another program read-only. Raise UnreadableFile if that fails."""
    address = path.resolve().as_uri()
    try:
        connection = sqlite3.connect(f"{address}?mode=ro", uri=True)
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if Path(f"{path}-wal").exists():
                raise
            # In WAL mode, SQLite creates files beside the database even to read it. In a folder that cannot be written
            # to, this fails, so the file is opened as immutable: SQLite then creates no files.
            connection = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise UnreadableFile(
            f"the database {path.name!r} cannot be opened: {error}",
            remedy="check that you may read it and that it is not damaged",
        ) from error
    return connection


def _decode(text: bytes) -> str | bytes:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _decode_text(value: bytes) -> str | bytes:
    """Return the text in a value; the bytes themselves if they are no text, such as a vector."""
    return value if b"\0" in value else _decode(value)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
