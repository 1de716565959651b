"""The port that runs a checked statement on tables of data within limits, and the classes of its input and output."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from everhold.ports.databases import DatabaseTables

Value = None | bool | int | float | Decimal | str | bytes | date | datetime | time | timedelta | list["Value"] | dict[str, "Value"]  # fmt: skip  # noqa: E501


@dataclass(frozen=True)
class CheckedStatement:
    """A statement that the guard has passed: only `ask/guard.py` makes one.

    `sql` already limits the rows to `row_limit` + 1. `tables` are the names that it reads.
    A statement that depends on the current time is not repeatable, and its result is not cached.
    """

    sql: str
    dialect: str
    tables: frozenset[str]
    row_limit: int
    is_repeatable: bool = True


@dataclass(frozen=True)
class ParquetTables:
    """Tables that are Parquet files, by name; each may consist of several files. Read by DuckDB.

    `version` identifies the content of all files. Without it, the files' sizes and times are used instead.
    """

    files: Mapping[str, tuple[str, ...]]
    version: str | None = None
    dialect: str = field(default="duckdb", init=False)


@dataclass(frozen=True)
class SqliteTables:
    """The tables of a SQLite file that no process writes."""

    path: str
    version: str | None = None
    dialect: str = field(default="sqlite", init=False)


DataSet = ParquetTables | SqliteTables | DatabaseTables


@dataclass(frozen=True)
class QueryLimits:
    """The limits of one query: wall time, resident memory, processor time, disk space for data that does not fit into
    memory, and the size of the result. A result with more than `rows` rows is truncated."""

    seconds: float = 10.0
    megabytes: int = 512
    cpu_seconds: int = 20
    disk_megabytes: int = 0
    rows: int = 10_000
    result_megabytes: int = 64


class ColumnType(StrEnum):
    """The type of a result's column, the same on every engine."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"
    JSON = "json"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result."""

    name: str
    type: ColumnType


@dataclass(frozen=True)
class QueryResult:
    """Rows `offset` to `offset + len(rows)` of a result with `row_count` rows.

    `truncated` is true if the query has more rows than the limit. `seconds` is the duration of its actual run, also if
    the result is from the cache.
    """

    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    truncated: bool
    seconds: float
    row_count: int
    offset: int = 0

    def slice_rows(self, offset: int, limit: int | None) -> "QueryResult":
        """Return one page of the result."""
        end = None if limit is None else offset + limit
        return replace(self, rows=self.rows[offset:end], offset=offset)


class DataEngine(Protocol):
    """Runs statements on data sets. Each runs in a separate process, which is ended when it reaches a limit."""

    def run(
        self,
        data: DataSet,
        statement: CheckedStatement,
        limits: QueryLimits | None = None,
        *,
        offset: int = 0,
        limit: int | None = None,
    ) -> QueryResult:
        """Return the rows of a statement, or a page of them. The same statement on the same data runs once.

        Raise QueryTimeout, QueryMemoryExceeded or ResultTooLarge at a limit, DataUnavailable if the data cannot be
        reached, QueryFailed if the engine refuses the statement.
        """
        ...

    def close(self) -> None:
        """End the processes that wait for a query."""
        ...
