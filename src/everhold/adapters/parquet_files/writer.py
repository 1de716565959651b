"""Write a result as a Parquet file, with DuckDB."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from everhold.errors import MissingExtra
from everhold.files import write_private
from everhold.ports.result_table import ResultTable, ResultValue

_BATCH = 20_000  # rows
_INTEGER_BITS = 63
# A column gets the first type that fits all its values. `bool` is a subclass of `int` and `datetime` of `date`, so each
# comes before the class from which it is derived.
_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "BOOLEAN"),
    (int, "BIGINT"),
    ((int, float, Decimal), "DOUBLE"),
    (datetime, "TIMESTAMP"),
    (date, "DATE"),
    (time, "TIME"),
    (timedelta, "INTERVAL"),
    (bytes, "BLOB"),
)


def write_parquet(table: ResultTable, path: Path, *, overwrite: bool = False) -> None:
    """Write a result to a Parquet file that only its owner can read.

    The file appears when it is complete. Raise InvalidInput if it exists, unless `overwrite` is true. A column of
    mixed values becomes text.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtra(
            "Parquet files need duckdb, which is not installed", remedy="run `pip install 'everhold[ask]'`"
        ) from error
    columns = [_prepare_column(table.values(index)) for index in range(len(table.columns))]
    with TemporaryDirectory(prefix="everhold-") as folder, duckdb.connect() as connection:
        names = _make_unique([column.name for column in table.columns])
        types = ", ".join(f"{_quote(name)} {kind}" for name, (kind, _) in zip(names, columns, strict=True))
        connection.execute(f"CREATE TABLE result ({types})")
        placeholders = ", ".join(f"unnest(?::{kind}[])" for kind, _ in columns)
        for start in range(0, len(table.rows), _BATCH):
            batch = [values[start : start + _BATCH] for _, values in columns]
            connection.execute(f"INSERT INTO result SELECT {placeholders}", batch)
        temporary_path = Path(folder) / "result.parquet"
        quoted_path = str(temporary_path).replace("'", "''")
        connection.execute(f"COPY result TO '{quoted_path}' (FORMAT parquet)")
        write_private(path, temporary_path.read_bytes(), overwrite=overwrite)


def _prepare_column(values: Sequence[ResultValue]) -> tuple[str, list[Any]]:
    """Return the type of a column, and its values converted to that type."""
    filled = [value for value in values if value is not None]
    for kind, name in _TYPES:
        if filled and all(isinstance(value, kind) and _has_exact_type(value, kind) for value in filled):
            return _convert(name, values)
    return "VARCHAR", [None if value is None else str(value) for value in values]


def _has_exact_type(value: ResultValue, kind: type | tuple[type, ...]) -> bool:
    """Return whether a value is of a kind and not of a narrower one."""
    if isinstance(value, bool):
        return kind is bool
    return not (isinstance(value, datetime) and kind is date)


def _convert(sql_type: str, values: Sequence[ResultValue]) -> tuple[str, list[Any]]:
    if sql_type == "BIGINT" and any(isinstance(value, int) and value.bit_length() > _INTEGER_BITS for value in values):
        return "DOUBLE", [None if value is None else float(str(value)) for value in values]
    if sql_type == "DOUBLE":
        return sql_type, [None if value is None else float(str(value)) for value in values]
    if sql_type == "TIMESTAMP" and any(isinstance(value, datetime) and value.tzinfo for value in values):
        return "TIMESTAMPTZ", list(values)
    return sql_type, list(values)


def _make_unique(names: Sequence[str]) -> list[str]:
    """Return the names, changed where two of them would be equal in lower case."""
    unique: list[str] = []
    for number, name in enumerate(names, start=1):
        taken = {other.lower() for other in unique}
        unique.append(name if name and name.lower() not in taken else f"{name or 'column'}_{number}")
    return unique


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
