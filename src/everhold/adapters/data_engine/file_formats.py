"""Refuse a file that is not a database of the kind that its URL names, before a driver opens it.

This runs in the process of the query. If the program itself has locked the file, as SQLite does, opening and closing
the file in the program would end the lock.
"""

from pathlib import Path
from typing import Final, NamedTuple

from everhold.adapters.data_engine.child import QueryFailure


class _Format(NamedTuple):
    title: str
    scheme: str
    offset: int  # the position of the signature in the file
    signature: bytes


SQLITE: Final = _Format("SQLite", "sqlite", 0, b"SQLite format 3\x00")
DUCKDB: Final = _Format("DuckDB", "duckdb", 8, b"DUCK")
_HEAD_BYTES: Final = 32
_DATA_FILES: Final = {
    ".csv": "a CSV file", ".tsv": "a TSV file", ".txt": "a text file", ".json": "a JSON file",
    ".jsonl": "a JSON Lines file", ".ndjson": "a JSON Lines file", ".xlsx": "an Excel file",
    ".parquet": "a Parquet file",
}  # fmt: skip


def require_format(path: str, expected: _Format) -> None:
    """Raise QueryFailure for a file that is not a database of a format. An empty file is an empty SQLite database."""
    name = repr(Path(path).name)
    if not Path(path).is_file():
        raise QueryFailure("format", f"{name} is not a file")
    with Path(path).open("rb") as file:
        head = file.read(_HEAD_BYTES)
    actual = next(
        (known for known in (SQLITE, DUCKDB) if head[known.offset :].startswith(known.signature)),
        None,
    )
    if actual is expected or (not head and expected is SQLITE):
        return
    if actual is not None:
        raise QueryFailure("format", f"the file {name} is a {actual.title} database; its URL is {actual.scheme}:///…")
    data_file = _DATA_FILES.get(Path(path).suffix.lower())
    database = f"{expected.title} database"
    raise QueryFailure("format", f"the file {name} is {f'{data_file}, ' if data_file else ''}not a {database}")
