"""What a reader of data files returns: the tables of a file as Parquet, with statistics of every column."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from everhold.ports.table_content import Cell, DeclaredKey
from everhold.progress import ReportProgress


@dataclass(frozen=True)
class ColumnStatistics:
    """A column of a table that was read, and what its values are.

    `values` are distinct values, the most frequent first, at most as many as the reader keeps. `quantiles` are those
    at 5, 25, 50, 75 and 95 %, of numbers only. Times are ISO texts.
    """

    name: str
    data_type: str
    null_count: int = 0
    distinct_count: int = 0
    minimum: Cell = None
    maximum: Cell = None
    quantiles: tuple[float, ...] = ()
    top_values: tuple[tuple[Cell, int], ...] = ()
    values: tuple[Cell, ...] = ()
    original_name: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class TableFile:
    """A table that was read. Its rows are in the Parquet file at `path`. `notes` are sentences on what was repaired."""

    name: str
    path: Path
    row_count: int
    columns: tuple[ColumnStatistics, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[DeclaredKey, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileContent:
    """What a file was detected to be, and its tables.

    `details` has what was detected, by name: "format", "encoding", "separator", "decimal", "header", …
    """

    details: Mapping[str, str]
    tables: tuple[TableFile, ...]
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each step took, for benchmarks."""


@dataclass(frozen=True)
class ReadLimits:
    """How much one file may cost."""

    memory_megabytes: int = 256
    """Memory above that of an idle process."""
    seconds: float = 8.0
    """The time to read a file, for each 32 MB that it has."""
    max_bytes: int = 4_000_000_000
    """The size of a file, before and after unpacking."""
    max_tables: int = 1_000
    max_columns: int = 1_000


class DataFileReader(Protocol):
    """Reads a data file that is not trusted."""

    def read(self, path: Path, name: str, folder: Path, report: ReportProgress) -> FileContent:
        """Read the file at `path`, which was uploaded under `name`, and write its tables into `folder`.

        UnreadableFile if it is damaged, holds no table or costs too much.
        """
        ...
