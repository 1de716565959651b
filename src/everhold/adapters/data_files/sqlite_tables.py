"""Read the tables of a SQLite file. The file is opened read-only, and nothing in it is run."""

import csv
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from everhold.adapters.data_files.context import ReadContext, StoredTable, explain_error
from everhold.adapters.data_files.database import quote_name, quote_text
from everhold.adapters.data_files.encoding import MAX_LINE
from everhold.adapters.data_files.names import name_columns
from everhold.adapters.data_files.refusal import Refusal
from everhold.ports.table_content import DeclaredKey

_READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA)
_PRAGMAS = ("table_info", "foreign_key_list")
_FUNCTIONS = ("typeof", "count")
_BATCH = 5_000
_NULL = "\\N"
# If the filled values of a column have exactly these types in SQLite, the stored column has this type.
_TYPES = {frozenset(["integer"]): "BIGINT", frozenset(["real"]): "DOUBLE", frozenset(["integer", "real"]): "DOUBLE"}


def read_database(context: ReadContext, path: Path) -> None:
    """Read every table of a SQLite file, with its declared keys."""
    with context.measure("read"):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE)
        try:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid").fetchall()
            connection.set_authorizer(_authorize)
            stored_names = {
                str(name): stored_name
                for (name,) in rows
                if not str(name).startswith("sqlite_") and (stored_name := _read_table(context, connection, str(name)))
            }
            _rename_targets(context, stored_names)
        except (sqlite3.Error, OverflowError) as error:
            raise Refusal(f"the SQLite file is damaged ({error})", "check it with `PRAGMA integrity_check`") from None
        except duckdb.Error as error:
            raise explain_error(error) from None
        finally:
            connection.close()


def _authorize(action: int, table_or_pragma: str | None, name: str | None, *_: Any) -> int:
    """Allow the actions that reading a table needs. Virtual tables and functions of a hostile file are refused."""
    if action not in _READS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and table_or_pragma not in _PRAGMAS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and name not in _FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _rename_targets(context: ReadContext, stored_names: Mapping[str, str]) -> None:
    """Replace the tables to which foreign keys refer by the names under which they were stored."""
    # SQLite ignores the case of names.
    by_lower_name = {name.lower(): stored_name for name, stored_name in stored_names.items()}
    for table in context.tables:
        table.foreign_keys = tuple(
            replace(key, to_table=by_lower_name.get(key.to_table.lower(), key.to_table)) for key in table.foreign_keys
        )


def _read_table(context: ReadContext, connection: sqlite3.Connection, name: str) -> str | None:
    """Read one table and return the name that it is stored under; None if it has no columns."""
    column_rows = connection.execute(f"PRAGMA table_info({quote_name(name)})").fetchall()
    if not column_rows:
        return None
    context.check_width(len(column_rows))
    columns, notes = name_columns([str(row[1]) for row in column_rows])
    stored_columns = {str(row[1]): column for row, column in zip(column_rows, columns, strict=True)}
    target = context.make_path(".csv")
    kinds = [_find_type(connection, name, str(row[1]), str(row[2])) for row in column_rows]
    with target.open("x", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        rows = connection.execute(f"SELECT * FROM {quote_name(name)}")
        while batch := rows.fetchmany(_BATCH):
            writer.writerows([[_format(value) for value in row] for row in batch])
    column_types = ", ".join(
        f"{quote_text(column)}: {quote_text(kind)}" for column, kind in zip(columns, kinds, strict=True)
    )
    source = (
        f"read_csv({quote_text(str(target))}, auto_detect=false, delim=',', quote='\"', escape='\"', header=false, "
        f"nullstr={quote_text(_NULL)}, max_line_size={2 * MAX_LINE}, columns={{{column_types}}})"
    )
    stored = StoredTable(context.name_table(name), context.write_parquet(f"SELECT * FROM {source}"))
    key_rows = sorted((row for row in column_rows if row[5]), key=lambda row: row[5])
    stored.primary_key = tuple(stored_columns[str(row[1])] for row in key_rows)
    stored.foreign_keys = tuple(_read_foreign_keys(connection, name))
    stored.notes = tuple(notes)
    context.tables.append(stored)
    target.unlink()
    return stored.name


def _find_type(connection: sqlite3.Connection, table: str, column: str, declared_type: str) -> str:
    """Return the type of a column by the types of its values, because SQLite allows any value in any column."""
    quoted_column = quote_name(column)
    rows = connection.execute(f"SELECT DISTINCT typeof({quoted_column}) FROM {quote_name(table)}").fetchall()
    kinds = frozenset(str(kind) for (kind,) in rows) - {"null"}
    if not kinds and any(word in declared_type.upper() for word in ("INT", "REAL", "NUM", "DEC", "FLOA", "DOUB")):
        return "DOUBLE"
    return _TYPES.get(kinds, "VARCHAR")


def _format(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bytes):
        return value.hex()
    return value.replace("\x00", "") if isinstance(value, str) else repr(value)


def _read_foreign_keys(connection: sqlite3.Connection, table: str) -> Iterator[DeclaredKey]:
    rows = connection.execute(f"PRAGMA foreign_key_list({quote_name(table)})").fetchall()
    composite = {row[0] for row in rows if row[1] > 0}
    for key_id, _, to_table, column, to_column, *_ in rows:
        if key_id not in composite and to_table and column:
            yield DeclaredKey(str(column), str(to_table), str(to_column or _find_single_key(connection, to_table)))


def _find_single_key(connection: sqlite3.Connection, table: str) -> str:
    column_rows = connection.execute(f"PRAGMA table_info({quote_name(table)})").fetchall()
    return next((str(row[1]) for row in column_rows if row[5]), "rowid")
