"""Read the tables of a SQLite file and run single queries on it. The file is opened read-only."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from everhold.errors import StoreError
from everhold.ports.table_content import Cell, ColumnContent, DeclaredKey, TableContent

_VALUES_PER_COLUMN = 5_000
_STEPS_BETWEEN_CHECKS = 10_000  # virtual machine instructions, some tenths of a millisecond


def read_tables(path: Path, values_per_column: int = _VALUES_PER_COLUMN) -> tuple[TableContent, ...]:
    """Return the tables of a file with the most frequent values of every column."""
    with _open_read_only(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        table_names = [str(name) for (name,) in names if not str(name).startswith("sqlite_")]
        return tuple(_read_table(connection, name, values_per_column) for name in table_names)


def run_query(path: Path, sql: str, seconds: float, max_rows: int) -> list[tuple[Cell, ...]]:
    """Return at most `max_rows` rows of a query; raise StoreError if it fails or takes longer than `seconds`."""
    with _open_read_only(path) as connection:
        deadline = monotonic() + seconds
        connection.set_progress_handler(lambda: int(monotonic() > deadline), _STEPS_BETWEEN_CHECKS)
        try:
            return connection.execute(sql).fetchmany(max_rows)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise StoreError(f"the query failed: {error}", value=sql, remedy="correct the query") from error


@contextmanager
def _open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        fact = f"cannot open the SQLite file {path.name!r}: {error}"
        raise StoreError(fact, value=str(path), remedy="pass the path of a readable SQLite file") from error
    # Data files hold bytes that are not UTF-8; one such value must not make its whole column unreadable.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        yield connection
    finally:
        connection.close()


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_table(connection: sqlite3.Connection, name: str, limit: int) -> TableContent:
    column_rows = connection.execute(f"PRAGMA table_info({_quote(name)})").fetchall()
    (row_count,) = connection.execute(f"SELECT count(*) FROM {_quote(name)}").fetchone()
    key_columns = sorted((rank, column) for _, column, _, _, _, rank in column_rows if rank)
    return TableContent(
        name,
        int(row_count),
        tuple(_read_column(connection, name, column, kind, limit) for _, column, kind, *_ in column_rows),
        tuple(column for _, column in key_columns),
        tuple(_read_foreign_keys(connection, name)),
    )


def _read_column(connection: sqlite3.Connection, table: str, column: str, kind: str, limit: int) -> ColumnContent:
    quoted_column = _quote(column)
    count_query = f"SELECT count(DISTINCT {quoted_column}), count(*) - count({quoted_column}) FROM {_quote(table)}"
    distinct_count, null_count = connection.execute(count_query).fetchone()
    most_frequent = (
        f"SELECT {quoted_column} FROM {_quote(table)} WHERE {quoted_column} IS NOT NULL "
        f"GROUP BY {quoted_column} ORDER BY count(*) DESC, {quoted_column} LIMIT ?"
    )
    values = tuple(value for (value,) in connection.execute(most_frequent, (limit,)))
    return ColumnContent(column, kind, values, int(distinct_count), int(null_count))


def _read_foreign_keys(connection: sqlite3.Connection, table: str) -> Iterator[DeclaredKey]:
    rows = connection.execute(f"PRAGMA foreign_key_list({_quote(table)})").fetchall()
    composite = {row[0] for row in rows if row[1] > 0}
    for key_id, _, to_table, column, to_column, *_ in rows:
        if key_id not in composite:
            yield DeclaredKey(column, to_table, to_column or _read_single_key(connection, to_table))


def _read_single_key(connection: sqlite3.Connection, table: str) -> str:
    """Return the primary key that a foreign key refers to when it names no column."""
    column_rows = connection.execute(f"PRAGMA table_info({_quote(table)})").fetchall()
    return next((str(row[1]) for row in column_rows if row[5]), "rowid")
