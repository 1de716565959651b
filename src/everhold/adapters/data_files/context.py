"""The objects that all readers in the child process share: the connection, the folder, the limits, the used names."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from everhold.adapters.data_files.database import quote_text
from everhold.adapters.data_files.names import make_table_name
from everhold.adapters.data_files.refusal import Refusal
from everhold.ports.data_files import ReadLimits
from everhold.ports.table_content import DeclaredKey


@dataclass
class StoredTable:
    """A table that has been written as Parquet and is not described yet."""

    name: str
    path: Path
    original_names: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[DeclaredKey, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class ReadContext:
    """One upload in the child process.

    `seconds` are the durations of the steps, `details` the properties of the file that were detected, and `notes`
    sentences for the user.
    """

    connection: duckdb.DuckDBPyConnection
    folder: Path
    limits: ReadLimits
    report: Callable[[str, int, int | None], None]
    seconds: dict[str, float] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tables: list[StoredTable] = field(default_factory=list)
    _file_count: int = 0

    def make_path(self, suffix: str = "") -> Path:
        """Return the path of a new file in the folder."""
        self._file_count += 1
        return self.folder / f"file-{self._file_count}{suffix}"

    def name_table(self, name: str) -> str:
        """Return a name for the next table; raise Refusal if there are too many tables."""
        if len(self.tables) >= self.limits.max_tables:
            raise Refusal(f"the file has more than {self.limits.max_tables:,} tables", "split it")
        return make_table_name(name, [table.name for table in self.tables])

    def check_tables(self, count: int) -> None:
        if count > self.limits.max_tables:
            raise Refusal(f"the file has {count:,} tables", f"use at most {self.limits.max_tables:,}")

    def check_width(self, count: int) -> None:
        if count > self.limits.max_columns:
            raise Refusal(f"a table has {count:,} columns", f"use at most {self.limits.max_columns:,}")

    def write_parquet(self, query: str) -> Path:
        """Write the rows of a query to a new Parquet file and return its path."""
        path = self.make_path(".parquet")
        try:
            self.connection.execute(f"COPY ({query}) TO {quote_text(str(path))} (FORMAT parquet)")
        except duckdb.Error:
            path.unlink(missing_ok=True)
            raise
        return path

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        """Add the time that the block takes to a step."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - began


def explain_error(error: duckdb.Error) -> Refusal:
    """Return the refusal for an error of DuckDB: its first sentence, without the paths in it."""
    if isinstance(error, duckdb.OutOfMemoryException):
        fact = "reading the file takes more memory than is allowed"
        return Refusal(fact, "split it, or raise uploads.memory_megabytes")
    sentence = str(error).partition("\n")[0].strip().rstrip(".")[:200]
    words = [word for word in sentence.split() if "/" not in word]
    return Refusal(f"the file cannot be read ({' '.join(words)})", "save it again as CSV, JSON or Parquet")
