"""Statistics of the columns of a Parquet file: counts, range, quantiles, frequent values."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from everhold.adapters.data_files.context import ReadContext, StoredTable
from everhold.adapters.data_files.database import make_cell, quote_name, quote_text
from everhold.ports.data_files import ColumnStatistics, TableFile

_MAX_VALUES = 2_000
_VALUE_CHARACTERS = 200
_TOP_VALUES = 20
# From this many distinct values on, values are ids or free text: a sample of them is enough.
_MAX_DISTINCT = 20_000
_QUANTILE_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
_QUANTILES = f"[{', '.join(map(str, _QUANTILE_SHARES))}]"
_SMALL_BYTES = 200_000
_SMALL_ROWS = 2_000
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "FLOAT", "DOUBLE")  # fmt: skip


def describe_table(context: ReadContext, table: StoredTable) -> TableFile:
    """Return a table with the statistics of its columns."""
    source = f"read_parquet({quote_text(str(table.path))})"
    if table.path.stat().st_size <= _SMALL_BYTES:
        small_table = _describe_small_table(context, table, source)
        if small_table is not None:
            return small_table
    description = context.connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    types = {str(row[0]): str(row[1]) for row in description}
    context.check_width(len(types))
    names = list(types)
    expressions = ", ".join(["count(*)", *(_select_statistics(name, types[name]) for name in names)])
    count, *statistics = context.connection.execute(f"SELECT {expressions} FROM {source}").fetchall()[0]
    columns = tuple(
        _describe_column(context, table, source, name, types[name], int(count), statistics[5 * index : 5 * index + 5])
        for index, name in enumerate(names)
    )
    return TableFile(table.name, table.path, int(count), columns, table.primary_key, table.foreign_keys, table.notes)


def _describe_small_table(context: ReadContext, table: StoredTable, source: str) -> TableFile | None:
    """Return a table with statistics that are counted in Python, or None if the table has too many rows.

    For many small tables this is faster than queries.
    """
    cursor = context.connection.execute(f"SELECT * FROM {source} LIMIT {_SMALL_ROWS + 1}")
    headings = [(str(heading[0]), str(heading[1])) for heading in cursor.description or ()]
    context.check_width(len(headings))
    rows = cursor.fetchall()
    if len(rows) > _SMALL_ROWS:
        return None
    columns = tuple(
        _count_column(table, name, data_type, [row[number] for row in rows])
        for number, (name, data_type) in enumerate(headings)
    )
    return TableFile(table.name, table.path, len(rows), columns, table.primary_key, table.foreign_keys, table.notes)


def _count_column(table: StoredTable, name: str, data_type: str, values: Sequence[Any]) -> ColumnStatistics:
    """Return exact statistics of a column, computed in Python from all of its values."""
    filled = [value[:_VALUE_CHARACTERS] if isinstance(value, str) else value for value in values if value is not None]
    counts = sorted(Counter(filled).items(), key=lambda pair: (-pair[1], pair[0]))
    numbers = sorted(float(value) for value in filled) if _is_number(data_type) else []
    quantiles = [numbers[int(share * (len(numbers) - 1))] for share in _QUANTILE_SHARES] if numbers else []
    return ColumnStatistics(
        name=name,
        data_type=data_type,
        null_count=len(values) - len(filled),
        distinct_count=len(counts),
        minimum=make_cell(min(filled, default=None)),
        maximum=make_cell(max(filled, default=None)),
        quantiles=_keep_finite(quantiles),
        top_values=tuple((make_cell(value), count) for value, count in counts[:_TOP_VALUES]),
        values=tuple(make_cell(value) for value, _ in counts[:_MAX_VALUES]),
        original_name=table.original_names.get(name),
        unit=table.units.get(name),
    )


def _keep_finite(quantiles: list[float]) -> tuple[float, ...]:
    """Return the quantiles, or an empty result if one is infinite, because JSON has no infinite numbers."""
    return tuple(quantiles) if all(map(math.isfinite, quantiles)) else ()


def _is_number(data_type: str) -> bool:
    return data_type in _NUMBERS or data_type.startswith("DECIMAL")


def _select_statistics(name: str, data_type: str) -> str:
    """Return SQL for the five statistics of a column that `_describe_column` takes."""
    column = quote_name(name)
    shortened = f"left({column}, {_VALUE_CHARACTERS})" if data_type == "VARCHAR" else column
    quantiles = f"approx_quantile({column}, {_QUANTILES})" if _is_number(data_type) else "NULL"
    return f"count({column}), approx_count_distinct({column}), min({shortened}), max({shortened}), {quantiles}"


def _describe_column(
    context: ReadContext,
    table: StoredTable,
    source: str,
    name: str,
    data_type: str,
    row_count: int,
    statistics: Sequence[Any],
) -> ColumnStatistics:
    """Return the statistics of one column.

    `statistics` are the number of filled values, an estimate of the distinct ones, minimum, maximum and quantiles.
    `source` is the SQL from which the table is read.
    """
    filled, distinct, minimum, maximum, quantiles = statistics
    column = quote_name(name)
    shortened = f"left({column}, {_VALUE_CHARACTERS})" if data_type == "VARCHAR" else column
    values: list[tuple[Any, int]] = []
    if distinct <= _MAX_DISTINCT:
        grouped = f"SELECT {shortened} AS v, count(*) AS n FROM {source} WHERE {column} IS NOT NULL GROUP BY 1"
        most_frequent = f"SELECT v, n, count(*) OVER () FROM ({grouped}) ORDER BY n DESC, v LIMIT {_MAX_VALUES}"
        rows = context.connection.execute(most_frequent).fetchall()
        values, distinct = [(row[0], row[1]) for row in rows], int(rows[0][2]) if rows else 0
    elif distinct >= 0.9 * filled and not data_type.startswith(("FLOAT", "DOUBLE", "DECIMAL")):
        # It may be a key, for which an estimate is not enough.
        distinct = context.connection.execute(f"SELECT count(DISTINCT {column}) FROM {source}").fetchall()[0][0]
    if not values and filled:
        sample = f"SELECT {column} FROM {source} LIMIT {4 * _MAX_VALUES}"
        rows = context.connection.execute(f"SELECT DISTINCT {shortened} FROM ({sample}) LIMIT {_MAX_VALUES}").fetchall()
        values = [(row[0], 1) for row in rows if row[0] is not None]
    is_counted = distinct <= _MAX_DISTINCT
    top_values = values[:_TOP_VALUES] if is_counted else []
    return ColumnStatistics(
        name=name,
        data_type=data_type,
        null_count=row_count - int(filled),
        distinct_count=min(int(distinct), int(filled)),
        minimum=make_cell(minimum),
        maximum=make_cell(maximum),
        quantiles=_keep_finite([float(value) for value in quantiles or ()]),
        top_values=tuple((make_cell(value), int(count)) for value, count in top_values),
        values=tuple(make_cell(value) for value, _ in values),
        original_name=table.original_names.get(name),
        unit=table.units.get(name),
    )
