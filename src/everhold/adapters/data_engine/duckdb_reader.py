"""Runs a SELECT on Parquet files with DuckDB, which loses access to all other files before it parses the statement."""

import datetime
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import QueryFailure, RowStream, fetch_batches

_THREADS: Final = 2
# The share of the process's memory that DuckDB may use, so that DuckDB reports an error before the process is killed.
_MEMORY_SHARE: Final = 0.6
# The share if DuckDB may spill to disk: while it spills, it uses memory that it does not count.
_MEMORY_SHARE_WITH_DISK: Final = 0.4
# Reading these types makes DuckDB import Python modules, which it cannot do once files are restricted.
_WARM_UP: Final = """
    SELECT DATE '2000-01-01', TIME '00:00', TIMESTAMP '2000-01-01', TIMESTAMPTZ '2000-01-01 00:00:00+00',
        INTERVAL 1 DAY, 1.5::DECIMAL(4, 1), uuid(), 'a'::BLOB, [1], {'a': 1}, MAP {'a': 1}, 'infinity'::TIMESTAMP
"""
_TYPES: Final = (
    (r"BOOLEAN", "boolean"), (r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?", "integer"), (r"DECIMAL", "decimal"),
    (r"DOUBLE|FLOAT", "float"), (r"VARCHAR|UUID|ENUM|BIT|BIGNUM", "text"), (r"BLOB", "bytes"), (r"DATE", "date"),
    (r"TIMESTAMP", "timestamp"), (r"TIME", "time"), (r"INTERVAL", "interval"), (r"STRUCT|MAP|UNION|JSON", "json"),
)  # fmt: skip


def read_rows(request: Mapping[str, Any]) -> RowStream:
    """Return the rows of the statement in the request."""
    limits, files = request["limits"], request["data"]["files"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], limits["disk_megabytes"])
    memory_limit = confinement.MemoryLimit(limits["megabytes"])
    connection = open_in_memory(limits)
    paths = [path for table_paths in files.values() for path in table_paths]
    scratch = str(Path.cwd()) if limits["disk_megabytes"] else None
    try:
        is_confined = confinement.restrict_files(paths, scratch)
        _open_tables(connection, files, is_confined)
        lock_settings(connection, paths if is_confined else [], scratch, limits["disk_megabytes"])
    except (duckdb.Error, OSError) as error:
        raise QueryFailure("unavailable", take_first_line(error)) from error
    confinement.refuse_calls()
    memory_limit.apply()
    return execute(connection, request["sql"])


def open_in_memory(limits: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """Return a connection to a new database in memory, after importing everything that reading values needs."""
    _install_pytz_stub()
    # DuckDB must not start threads yet: Landlock restricts only the calling thread and the threads that it starts
    # later.
    share = _MEMORY_SHARE_WITH_DISK if limits["disk_megabytes"] else _MEMORY_SHARE
    connection = duckdb.connect(":memory:", config={
        "threads": 1, "async_threads": 0, "autoinstall_known_extensions": False, "autoload_known_extensions": False,
        "allow_community_extensions": False, "python_enable_replacements": False,
        "memory_limit": f"{int(limits['megabytes'] * share)}MB",
    })  # fmt: skip
    connection.execute(_WARM_UP).fetchall()
    return connection


def _open_tables(connection: duckdb.DuckDBPyConnection, files: Mapping[str, list[str]], is_confined: bool) -> None:
    """Create a view of each table's files. Without Landlock, DuckDB could write to them, so they are copied instead."""
    kind = "VIEW" if is_confined else "TABLE"
    for name, paths in files.items():
        path_list = ", ".join(quote_text(path) for path in paths)
        quoted_name = name.replace('"', '""')
        connection.execute(f'CREATE {kind} "{quoted_name}" AS SELECT * FROM read_parquet([{path_list}])')


def lock_settings(
    connection: duckdb.DuckDBPyConnection, paths: list[str], scratch: str | None, spill_limit: int
) -> None:
    """Allow access only to the files in `paths` and to the folder `scratch`. This cannot be undone."""
    # The order matters: with a temporary folder still set, turning external access off would leave that folder open.
    connection.execute(f"SET temp_directory = {quote_text(f'{scratch}/spill' if scratch else '')}")
    if scratch:
        connection.execute(f"SET max_temp_directory_size = '{spill_limit}MB'")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET threads = {_THREADS}")
    path_list = ", ".join(quote_text(path) for path in paths)
    connection.execute(f"SET allowed_paths = [{path_list}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def execute(connection: duckdb.DuckDBPyConnection, sql: str) -> RowStream:
    """Return the rows of a statement."""
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryFailure("failed", "the statement is not a single SELECT")
        cursor = connection.execute(statements[0])
        columns = [(str(name), _name_type(str(kind))) for name, kind, *_ in cursor.description or ()]
    except duckdb.Error as error:
        raise translate_error(error) from error
    return RowStream(columns, _fetch(cursor))


def _fetch(cursor: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    try:
        yield from fetch_batches(cursor.fetchmany)
    except duckdb.Error as error:
        raise translate_error(error) from error


def translate_error(error: duckdb.Error) -> QueryFailure:
    """Return the failure with which an error of DuckDB is reported."""
    if isinstance(error, duckdb.OutOfMemoryException) or "bad_alloc" in str(error):
        return QueryFailure("memory", "")
    return QueryFailure("failed", take_first_line(error))


def take_first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 300 characters of it."""
    return str(error).partition("\n")[0][:300]


def _name_type(duckdb_type: str) -> str:
    if duckdb_type.endswith("]"):  # a list or an array
        return "json"
    return next((name for pattern, name in _TYPES if re.match(rf"({pattern})(?![A-Z])", duckdb_type)), "unknown")


class _Utc(datetime.tzinfo):
    """UTC, the only time zone of the session, with the method `localize` of the zones of pytz, which DuckDB calls."""

    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)

    def dst(self, moment: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)

    def tzname(self, moment: datetime.datetime | None) -> str:
        return "UTC"

    def localize(self, moment: datetime.datetime) -> datetime.datetime:
        return moment.replace(tzinfo=datetime.UTC)


def _install_pytz_stub() -> None:
    """Install a stub of pytz. DuckDB imports it to read a timestamp with a time zone, and we do not depend on it."""
    module, zone = types.ModuleType("pytz"), _Utc()
    module.__dict__.update(timezone=lambda _: zone, utc=zone)
    sys.modules["pytz"] = module


def quote_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
