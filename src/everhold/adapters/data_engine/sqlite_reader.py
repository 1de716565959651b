"""A SQLite file, read-only: an authorizer allows reading its tables with functions on a list, and nothing else."""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import QueryFailure, RowStream, fetch_batches

_STEPS: Final = 10_000  # the number of virtual machine instructions after which SQLite calls the progress handler
_FIRST_ROWS: Final = 200  # the rows from which the types of the columns are inferred
_SHARE_OF_MEMORY: Final = 0.6
_ALLOWED_FUNCTIONS = """
    abs avg cast ceil ceiling coalesce concat concat_ws count cume_dist current_date current_time current_timestamp
    date datetime dense_rank exp first_value floor glob group_concat ifnull iif instr json_extract julianday lag
    last_value
    lead length like ln log log10 lower ltrim max min mod nth_value ntile nullif percent_rank pow power rank replace
    round row_number rtrim sign sqrt strftime string_agg substr substring sum time total trim trunc typeof unixepoch
    upper -> ->>
"""
_FUNCTIONS: Final = frozenset(_ALLOWED_FUNCTIONS.split())
_PRAGMAS: Final = (
    "temp_store = MEMORY", "query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0",
)  # fmt: skip
_LIMITS: Final[Mapping[int, int]] = {
    sqlite3.SQLITE_LIMIT_LENGTH: 50_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 2_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 300,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_TYPES: Final[Mapping[type, str]] = {int: "integer", float: "float", str: "text", bytes: "bytes"}


def read_rows(request: Mapping[str, Any]) -> RowStream:
    """Return the rows of the statement in the request."""
    limits, path = request["limits"], request["data"]["path"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    memory_limit = confinement.MemoryLimit(limits["megabytes"])
    try:
        confinement.restrict_files([path])
        # Immutable: SQLite neither locks the file nor looks for a journal beside it.
        connection = open_file(path, limits, is_immutable=True)
        connection.set_authorizer(make_authorizer(list_names(connection)))
    except (sqlite3.Error, OSError) as error:
        raise QueryFailure("unavailable", str(error)[:300]) from error
    confinement.refuse_calls()
    memory_limit.apply()
    limit_time(connection, limits["seconds"])
    return execute(connection, request["sql"])


def open_file(path: str, limits: Mapping[str, Any], *, is_immutable: bool) -> sqlite3.Connection:
    """Open a file for reading, with small limits and without trusting anything in the file."""
    address = f"{Path(path).absolute().as_uri()}?mode=ro{'&immutable=1' if is_immutable else ''}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, cached_statements=0)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")
    heap = int(limits["megabytes"] * _SHARE_OF_MEMORY) << 20
    for pragma in (*_PRAGMAS, f"hard_heap_limit = {heap}"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    return connection


def list_names(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the names of the tables and views, in lower case, without those of SQLite itself."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    return frozenset(name.lower() for (name,) in names if not name.lower().startswith("sqlite_"))


def limit_time(connection: sqlite3.Connection, seconds: float) -> None:
    """Make SQLite end any statement that still runs after this many seconds from now."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)


def make_authorizer(tables: frozenset[str]) -> Callable[..., int]:
    """Return the function that allows SQLite to read these tables with functions of the list, and nothing else."""

    def authorize(action: int, table: str | None, name: str | None, schema: str | None, source: str | None) -> int:
        """Decide on one action. `name` is the column that is read, or the function that is called."""
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        # A subquery in FROM is read under its alias, or under no name, without a schema.
        is_readable = schema is None or (table or "").lower() in tables
        if action == sqlite3.SQLITE_READ and is_readable:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (name or "").lower() in _FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return authorize


def execute(connection: sqlite3.Connection, sql: str) -> RowStream:
    """Return the rows of a statement."""
    try:
        cursor = connection.execute(sql)
        first_rows = cursor.fetchmany(_FIRST_ROWS)
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise translate_error(error) from error
    names = [str(described[0]) for described in cursor.description or ()]
    kinds = [_find_type([row[index] for row in first_rows]) for index in range(len(names))]
    return RowStream(list(zip(names, kinds, strict=True)), _fetch(cursor, first_rows))


def _fetch(cursor: sqlite3.Cursor, first_rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    yield first_rows
    try:
        yield from fetch_batches(cursor.fetchmany)
    except sqlite3.Error as error:
        raise translate_error(error) from error


def _find_type(values: list[Any]) -> str:
    """Return the type that the first values share. SQLite gives each value a type, but no column of a result."""
    kinds = {_TYPES[type(value)] for value in values if value is not None}
    if kinds == {"integer", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "unknown"


def translate_error(error: Exception) -> QueryFailure:
    """Return the failure with which an error of SQLite is reported."""
    text = str(error)
    if "interrupted" in text:
        return QueryFailure("time", "")
    if "out of memory" in text:
        return QueryFailure("memory", "")
    return QueryFailure("failed", text[:300])
