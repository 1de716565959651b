"""Make the profile of a database: read the catalog, count the rows up to a limit, and read a sample of each table.

This runs in a separate process. No large table is read to its end: the count stops at a limit, and the statistics are
those of the sample.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from datetime import time as day_time
from decimal import Decimal
from typing import Any, Final

from everhold.adapters.data_engine.child import QueryFailure
from everhold.adapters.data_engine.session import CatalogColumn, CatalogTable, DatabaseSession

_VALUE_CHARACTERS: Final = 200  # longer values are cut
_MAX_VALUES: Final = 2_000  # the most distinct values of a column in the profile
_MIN_VALUES: Final = 20  # as many values of each column are in the profile even of a very wide table
_TOP_VALUES: Final = 20  # the most frequent values, which are given with their counts
_VALUES_PER_TABLE: Final = 100_000
_VALUES_PER_DATABASE: Final = 400_000
_MAX_CELLS: Final = 1_000_000  # the maximum number of rows times columns in one sample
_COUNT_FACTOR: Final = 10  # rows are counted up to this multiple of the size of a sample
_QUANTILE_SHARES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_TEXT: Final = re.compile(r"char|text|enum|^set|uuid|name|string|clob|citext|uniqueidentifier", re.IGNORECASE)
_PLAIN: Final = re.compile(
    r"int(?!erval)|serial|real|floa|doub|num|dec|money|bool|bit$|bit\(1\)|date|time|year", re.IGNORECASE
)
_LIST: Final = re.compile(r"\[|^struct|^map|^union|array", re.IGNORECASE)
# Types whose names would be mistaken for those of numbers, such as "interval" for "int", and the names used instead.
_TYPE_NAMES: Final = (
    (re.compile(r"^interval", re.IGNORECASE), "duration"),
    (re.compile(r"point", re.IGNORECASE), "place"),
)
_QUOTES: Final[Mapping[str, tuple[str, str]]] = {"mysql": ("`", "`"), "tsql": ("[", "]"), "bigquery": ("`", "`")}


def profile_database(session: DatabaseSession, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a document for each table, and at the end one with the server and the notes."""
    limits, dialect = request["profile"], request["data"]["dialect"]
    deadline = time.monotonic() + 0.8 * limits["seconds"]  # the process is killed after all of the seconds
    tables = [table for table in session.list_tables() if table.columns]
    notes = list(session.notes)
    if len(tables) > limits["max_tables"]:
        notes.append(f"only the first {limits['max_tables']:,} of {len(tables):,} tables are used")
    values_left = _VALUES_PER_DATABASE
    for table in tables[: limits["max_tables"]]:
        surplus_columns = len(table.columns) - limits["max_columns"]
        if surplus_columns > 0:
            notes.append(f"{table.name} has {surplus_columns:,} columns too many, and is left out")
            continue
        sampler = _TableSampler(session, dialect, table, limits, deadline, min(values_left, _VALUES_PER_TABLE))
        document = sampler.describe()
        if document is None:
            notes.append(f"{table.name} is left out: {sampler.problem}")
            continue
        values_left = max(0, values_left - sum(len(column["values"]) for column in document["columns"]))
        yield {"table": document}
    yield {"end": True, "server": session.server, "notes": notes}


class _TableSampler:
    """Describes one table. `problem` is the reason why the table cannot be read, or empty."""

    def __init__(
        self,
        session: DatabaseSession,
        dialect: str,
        table: CatalogTable,
        limits: Mapping[str, Any],
        deadline: float,
        values_left: int,
    ) -> None:
        self._session, self._dialect, self._table, self._limits = session, dialect, table, limits
        self._deadline = deadline
        self._max_values = max(_MIN_VALUES, min(_MAX_VALUES, values_left // len(table.columns)))
        self._sample_rows = max(100, min(limits["sample_rows"], _MAX_CELLS // len(table.columns)))
        self.problem = ""

    def describe(self) -> dict[str, Any] | None:
        rows, notes = self._read_sample()
        if rows is None:
            return None
        count = self._count_rows(len(rows), notes)
        columns = [
            self._describe_column(column, [row[index] for row in rows], count)
            for index, column in enumerate(self._table.columns)
        ]
        if count > len(rows):
            notes.append(f"statistics are those of {len(rows):,} of about {count:,} rows")
        return {
            "name": self._table.name,
            "row_count": count,
            "columns": columns,
            "primary_key": self._table.primary_key,
            "foreign_keys": self._table.foreign_keys,
            "is_view": self._table.is_view,
            "notes": notes,
        }

    def _read_sample(self) -> tuple[list[tuple[Any, ...]] | None, list[str]]:
        """Return the rows of the sample, and notes. The rows are empty if the time is up, None if reading failed."""
        seconds = self._compute_seconds_left()
        if seconds <= 0:
            return [], ["not sampled: there was no time left for it"]
        expressions = ", ".join(self._make_expression(column) for column in self._table.columns)
        try:
            sql = self._make_select(expressions, self._quote_table(), self._sample_rows)
            rows = list(self._session.query(sql, seconds))
        except QueryFailure as failure:
            if failure.kind == "time":
                return [], [f"not sampled: reading it takes longer than {seconds:.1f} s"]
            self.problem = failure.message
            return None, []
        return rows, []

    def _compute_seconds_left(self) -> float:
        return min(float(self._limits["statement_seconds"]), self._deadline - time.monotonic())

    def _count_rows(self, sample_size: int, notes: list[str]) -> int:
        """Return the number of rows: exact up to a limit, and above it the estimate of the database."""
        if sample_size < self._sample_rows and not notes:
            return sample_size
        estimate = self._table.row_estimate or 0
        max_count, seconds = _COUNT_FACTOR * self._sample_rows, self._compute_seconds_left()
        if estimate > max_count or seconds <= 0 or (notes and estimate):
            return max(estimate, sample_size)
        try:
            inner = self._make_select("1 AS one", self._quote_table(), max_count + 1)
            [(count,)] = self._session.query(f"SELECT COUNT(*) FROM ({inner}) counted", seconds)
        except (QueryFailure, ValueError):
            return max(estimate, sample_size)
        return int(count) if count <= max_count else max(estimate, max_count + 1)

    def _quote_table(self) -> str:
        return _quote(self._table.name, self._dialect)

    def _make_select(self, expressions: str, source: str, count: int) -> str:
        """Return a statement that reads at most `count` rows."""
        if self._dialect == "tsql":
            return f"SELECT TOP {count} {expressions} FROM {source}"
        row_estimate = self._table.row_estimate or 0
        if self._dialect == "postgres" and row_estimate > 100 * self._sample_rows and not self._table.is_view:
            # Pages from all over the table, three times as many as needed. The first rows of a large table are often
            # its oldest.
            percent = max(0.001, 300.0 * self._sample_rows / float(row_estimate))
            source = f"{source} TABLESAMPLE SYSTEM ({percent:.4f})"
        return f"SELECT {expressions} FROM {source} LIMIT {count}"

    def _make_expression(self, column: CatalogColumn) -> str:
        """Return the expression that reads a column. Texts are shortened. Of a value that is neither a text nor plain,
        the expression reads only whether it is NULL."""
        name = _quote(column.name, self._dialect)
        if self._dialect == "sqlite":  # a column may contain values of any type
            return (
                f"CASE typeof({name}) WHEN 'integer' THEN {name} WHEN 'real' THEN {name} "
                f"WHEN 'text' THEN substr({name}, 1, {_VALUE_CHARACTERS}) WHEN 'null' THEN NULL ELSE '' END"
            )
        if _is_text(column):
            if self._dialect in ("mysql", "tsql"):
                return f"LEFT({name}, {_VALUE_CHARACTERS})"
            return f"substr(CAST({name} AS VARCHAR), 1, {_VALUE_CHARACTERS})"
        return name if _is_plain(column) else f"CASE WHEN {name} IS NULL THEN NULL ELSE 0 END"

    def _describe_column(self, column: CatalogColumn, values: Sequence[Any], row_count: int) -> dict[str, Any]:
        filled = [cell for value in values if (cell := _make_cell(value)) is not None]
        is_readable = self._dialect == "sqlite" or _is_text(column) or _is_plain(column)
        counts = Counter(filled) if is_readable else Counter()
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
        null_share = 1 - len(filled) / len(values) if values else 0.0
        numbers = sorted(float(cell) for cell in filled if not isinstance(cell, str)) if is_readable else []
        is_sample = row_count > len(values)
        return {
            "name": column.name,
            "data_type": _simplify_type(column.data_type),
            "null_count": round(null_share * row_count),
            "distinct_count": self._estimate_distinct(column, counts, len(filled), row_count)
            if is_sample
            else len(counts),
            "minimum": _find_extreme(counts, min),
            "maximum": _find_extreme(counts, max),
            "quantiles": _find_quantiles(numbers) if len(numbers) == len(filled) else [],
            "top_values": [[value, count] for value, count in ranked[:_TOP_VALUES]] if not is_sample else [],
            "values": [value for value, _ in ranked[: self._max_values]],
        }

    def _estimate_distinct(self, column: CatalogColumn, counts: Counter[Any], filled_count: int, row_count: int) -> int:
        """Return an estimate of the number of distinct values of a column, which has more of them than the sample.

        The number of values that occur once in the sample is multiplied by the square root of the number of rows per
        sampled row (the estimator GEE), which bounds the error in both directions.
        """
        is_key = self._table.primary_key == [column.name] or column.name in self._table.unique_columns
        if not filled_count:
            return 0 if not is_key else row_count
        if is_key or (len(counts) == filled_count and filled_count > 1):
            return row_count
        singletons = sum(count == 1 for count in counts.values())
        estimate = math.sqrt(row_count / filled_count) * singletons + len(counts) - singletons
        return min(row_count, max(len(counts) + 1, round(estimate)))


def _quote(name: str, dialect: str) -> str:
    start, end = _QUOTES.get(dialect, ('"', '"'))
    return f"{start}{name.replace(end, end + end)}{end}"


def _is_text(column: CatalogColumn) -> bool:
    return bool(_TEXT.search(column.data_type)) and not _LIST.search(column.data_type)


def _is_plain(column: CatalogColumn) -> bool:
    return bool(_PLAIN.search(column.data_type)) and not _LIST.search(column.data_type)


def _simplify_type(data_type: str) -> str:
    return next((name for pattern, name in _TYPE_NAMES if pattern.search(data_type)), data_type)[:200]


def _make_cell(value: Any) -> str | int | float | None:  # noqa: PLR0911 — one per type
    """Return a value of a database as a value that JSON has."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return value[:_VALUE_CHARACTERS]
        case int():
            return value if -(2**63) <= value < 2**63 else float(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            if not value.is_finite():
                return str(value)
            return int(value) if value == value.to_integral_value() and abs(value) < 2**53 else float(value)
        case datetime() | date() | day_time():
            return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
        case bytes() | bytearray() | memoryview():
            content = bytes(value)
            return int.from_bytes(content) if len(content) <= 1 else ""  # a bit of MySQL
        case _:
            return str(value)[:_VALUE_CHARACTERS]


def _find_extreme(counts: Counter[Any], choose: Any) -> Any:
    try:
        return choose(counts, default=None)
    except TypeError:  # texts and numbers in one column of SQLite
        return choose(counts, key=str, default=None)


def _find_quantiles(numbers: Sequence[float]) -> list[float]:
    quantiles = [numbers[int(share * (len(numbers) - 1))] for share in _QUANTILE_SHARES] if numbers else []
    return quantiles if all(map(math.isfinite, quantiles)) else []
