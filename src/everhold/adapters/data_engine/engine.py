"""The data engine: one process per query, the next one started ahead, results cached by content."""

import hashlib
import json
import signal
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from everhold.adapters.data_engine.child import CONNECTED, DATABASE_PREFIX
from everhold.adapters.data_engine.encoding import decode_value
from everhold.adapters.data_engine.process import ChildAnswer, QueryProcess
from everhold.errors import (
    DataUnavailable,
    EverholdError,
    InvalidInput,
    MissingExtra,
    QueryFailed,
    QueryMemoryExceeded,
    QueryTimeout,
    Remedy,
    ResultTooLarge,
    Verb,
)  # fmt: skip
from everhold.ports.data_engine import (
    CheckedStatement,
    ColumnType,
    DataSet,
    ParquetTables,
    QueryLimits,
    QueryResult,
    ResultColumn,
)
from everhold.ports.databases import DatabaseTables

_INSTALL: Final = "pip install 'everhold[connect]'"
_EXTRA_MODULES: Final = frozenset({"adbc_driver_manager", "duckdb", "nanoarrow", "psycopg", "pymysql", "sqlalchemy"})
_OVERHEAD_BYTES: Final = 1 << 20  # what a process writes in addition to its rows
# The signals with which a process ends when memory runs out: its own abort, or those of the kernel.
_MEMORY_SIGNALS: Final = frozenset({signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS})
_TIME_SIGNALS: Final = frozenset({signal.SIGALRM, signal.SIGXCPU})


class SandboxedDataEngine:
    """Runs each statement in a process that may only read the data set and is killed at its deadline."""

    def __init__(self, limits: QueryLimits | None = None, *, cache_megabytes: int = 64) -> None:
        self._limits = limits or QueryLimits()
        self._cache = _ResultCache(cache_megabytes << 20)
        self._lock = threading.Lock()
        self._spares: dict[str, QueryProcess] = {}
        self._is_closed = False

    def run(
        self,
        data: DataSet,
        statement: CheckedStatement,
        limits: QueryLimits | None = None,
        *,
        offset: int = 0,
        limit: int | None = None,
    ) -> QueryResult:
        limits = limits or self._limits
        if data.dialect != statement.dialect:
            raise InvalidInput(
                f"the statement is {statement.dialect} and the data needs {data.dialect}",
                value=statement.dialect,
                remedy="check the statement in the dialect of its data",
            )
        if offset < 0 or (limit is not None and limit < 0):
            raise InvalidInput("a page begins at row 0 or later", value=offset, remedy="pass 0 or more")
        key = _make_key(data, statement, limits)
        result = self._cache.get(key) if key else None
        if result is None:
            result, size = self._run(data, statement, limits)
            if key:
                self._cache.put(key, result, size)
        return result.slice_rows(offset, limit)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            spares, self._spares = self._spares, {}
        for spare in spares.values():
            spare.end()

    def _run(self, data: DataSet, statement: CheckedStatement, limits: QueryLimits) -> tuple[QueryResult, int]:
        max_rows = min(limits.rows, statement.row_limit)
        request = {
            "sql": statement.sql,
            "data": _describe_data(data, statement),
            "limits": {**asdict(limits), "rows": max_rows},
        }
        reader = _name_reader(data)
        process = self._take_process(reader)
        answer = process.run(request, limits.seconds, (limits.result_megabytes << 20) + _OVERHEAD_BYTES)
        self._prepare_spare(reader)
        return _read_answer(answer, limits, is_database=isinstance(data, DatabaseTables)), len(answer.output)

    def _take_process(self, reader: str) -> QueryProcess:
        with self._lock:
            spare = self._spares.pop(reader, None)
        if spare is not None:
            if spare.is_waiting:
                return spare
            spare.end()
        return QueryProcess(reader)

    def _prepare_spare(self, reader: str) -> None:
        """Start the process of the next query, which imports the driver while nothing waits for it."""
        with self._lock:
            if not self._is_closed and reader not in self._spares:
                self._spares[reader] = QueryProcess(reader)


def _name_reader(data: DataSet) -> str:
    return f"{DATABASE_PREFIX}{data.address.driver}" if isinstance(data, DatabaseTables) else data.dialect


def describe_database(data: DatabaseTables) -> dict[str, Any]:
    """Return the part of a request that names a database and how to connect to it."""
    request_data = {**asdict(data.address), "schema": data.schema, "hosts": list(data.hosts)}
    if data.address.is_file:
        request_data["database"] = _resolve_paths([data.address.database], f"the file {data.address.database!r}")[0]
    return request_data


def _describe_data(data: DataSet, statement: CheckedStatement) -> dict[str, Any]:
    if isinstance(data, ParquetTables):
        missing = statement.tables - data.files.keys()
        if missing:
            name = min(missing)
            raise InvalidInput(f"no table {name!r} in the data set", value=name, remedy="use one of its tables")
        return {"files": {name: _resolve_paths(data.files[name]) for name in sorted(statement.tables)}}
    if isinstance(data, DatabaseTables):
        return describe_database(data)
    return {"path": _resolve_paths([data.path])[0]}


def _resolve_paths(paths: tuple[str, ...] | list[str], name: str = "a file of the data set") -> list[str]:
    """Return absolute paths without links, because the process of the query has no right to follow links."""
    try:
        return [str(Path(path).resolve(strict=True)) for path in paths]
    except OSError as error:
        raise DataUnavailable(f"{name} cannot be read ({error.strerror})", value=paths[0]) from error


def _make_key(data: DataSet, statement: CheckedStatement, limits: QueryLimits) -> str:
    """Return the key of a result in the cache, or an empty text if the data may change unnoticed."""
    if not statement.is_repeatable or (data.version is None and isinstance(data, DatabaseTables)):
        return ""
    request_data = _describe_data(data, statement)
    identity: Any = data.version if data.version is not None else _identify_files(request_data)
    parts = [request_data, identity, statement.sql, statement.row_limit, asdict(limits)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _identify_files(request_data: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """Return numbers that change when a file of the request changes."""
    if "path" in request_data:
        paths = [request_data["path"]]
    else:
        paths = [path for table_paths in request_data["files"].values() for path in table_paths]
    try:
        states = [Path(path).stat() for path in paths]
    except OSError as error:
        raise make_error("unavailable", str(error.strerror), QueryLimits()) from error
    return [(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns) for state in states]


def _read_answer(answer: ChildAnswer, limits: QueryLimits, *, is_database: bool = False) -> QueryResult:
    """Return the result that a query's process has written; raise the error that it reports or by which it ended."""
    if answer.is_too_long:
        raise ResultTooLarge(f"the result has more than {limits.result_megabytes} MB", value=limits.result_megabytes)
    lines = answer.output.splitlines()
    if is_database:
        is_connected = lines[:1] == [CONNECTED]
        lines = [line for line in lines if line != CONNECTED]
        if not is_connected and not lines and answer.at_deadline:
            raise make_error("silent", "", limits)
    try:
        last_document = json.loads(lines[-1]) if lines and not answer.at_deadline else {}
        if "error" in last_document:
            raise make_error(str(last_document["error"]), str(last_document["message"]), limits)
        if not last_document.get("end"):
            raise make_end_error(answer, limits)
        columns = tuple(ResultColumn(str(name), ColumnType(kind)) for name, kind in json.loads(lines[0])["columns"])
        rows = tuple(tuple(map(decode_value, row)) for line in lines[1:-1] for row in json.loads(line)["rows"])
        return QueryResult(columns, rows, bool(last_document["truncated"]), float(last_document["seconds"]), len(rows))
    except EverholdError:  # some are also ValueErrors
        raise
    except (ValueError, KeyError, TypeError, ArithmeticError, AttributeError) as error:
        raise QueryFailed("the query's process gave no valid answer", remedy="try again") from error


def make_error(kind: str, message: str, limits: QueryLimits) -> EverholdError:  # noqa: PLR0911 — one per kind
    """Return the error of a kind that a process names. The message may come from a hostile server."""
    message = "".join(letter if letter.isprintable() else " " for letter in message)
    match kind:
        case "time":
            return QueryTimeout(f"the query took longer than {limits.seconds:g} s", value=limits.seconds)
        case "memory":
            return QueryMemoryExceeded(f"the query needs more than {limits.megabytes} MB", value=limits.megabytes)
        case "size":
            return ResultTooLarge(
                f"the result has more than {limits.result_megabytes} MB", value=limits.result_megabytes
            )
        case "unavailable":
            return DataUnavailable(f"the data cannot be read ({message})")
        case "unreachable":
            return DataUnavailable(f"the database cannot be reached ({message})")
        case "login":
            remedy = "check the user and the password in the URL of the database"
            return DataUnavailable(f"the database refuses the login ({message})", remedy=remedy)
        case "silent":
            return DataUnavailable(f"the database did not answer within {limits.seconds:g} s", value=limits.seconds)
        case "host":
            return InvalidInput(
                f"connections to {message!r} are not allowed", value=message,
                remedy="add the host to the setting connections.hosts",
            )  # fmt: skip
        case "format":
            upload = Remedy("name a database; files such as CSV, JSON and Excel are added with {}", Verb("upload"))
            return InvalidInput(message, remedy=upload)
        case "driver":
            is_in_extra = message.partition(".")[0] in _EXTRA_MODULES
            command = _INSTALL if is_in_extra else f"install the package that has it, as with `pip install {message}`"
            return MissingExtra(f"the module {message!r} is not installed", value=message, remedy=command)
        case "role":
            return QueryFailed(
                f"the role {message!r} can read files of the server", value=message,
                remedy="connect with a role that may only read the tables",
            )  # fmt: skip
        case _:
            return QueryFailed(f"the query failed ({message})", remedy="check the statement against the tables")


def make_end_error(answer: ChildAnswer, limits: QueryLimits) -> EverholdError:
    """Return the error for a process that ended without an answer."""
    if answer.at_deadline:
        return make_error("time", "", limits)
    if answer.ended_by in _TIME_SIGNALS:
        return QueryTimeout(
            f"the query used more than {limits.cpu_seconds} s of processor time", value=limits.cpu_seconds
        )
    if answer.ended_by in _MEMORY_SIGNALS:
        return make_error("memory", "", limits)
    return QueryFailed("the query's process ended without an answer", remedy="try again")


class _ResultCache:
    """The results that were read last, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._size = max_bytes, 0
        self._lock = threading.Lock()
        self._results: OrderedDict[str, tuple[QueryResult, int]] = OrderedDict()

    def get(self, key: str) -> QueryResult | None:
        with self._lock:
            if key not in self._results:
                return None
            self._results.move_to_end(key)
            return self._results[key][0]

    def put(self, key: str, result: QueryResult, size: int) -> None:
        with self._lock:
            if size > self._max_bytes or key in self._results:
                return
            self._results[key] = (result, size)
            self._size += size
            while self._size > self._max_bytes:
                _, (_, dropped_size) = self._results.popitem(last=False)
                self._size -= dropped_size
