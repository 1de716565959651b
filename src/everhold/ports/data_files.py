"""The port that reads data files: it writes each table of a file as Parquet and returns statistics of its columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from everhold.ports.table_content import Cell, DeclaredKey
from everhold.progress import ReportProgress


@dataclass(frozen=True)
class ColumnStatistics:
    """The name and type of a column, and statistics of its values.

    `top_values` are the most frequent values with their counts. `values` are distinct values, most frequent first; the
    reader limits their number. `quantiles` are the 5th, 25th, 50th, 75th and 95th percentile of a column of numbers.
    Times are ISO texts. `original_name` is the name in the file, if it was changed.
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
    """One table of a data file. Its rows are in the Parquet file at `path`. `notes` are sentences about repairs."""

    name: str
    path: Path
    row_count: int
    columns: tuple[ColumnStatistics, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[DeclaredKey, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileContent:
    """The tables of a data file, and the format that was detected.

    `details` are properties of the format by name: "format", "encoding", "separator", "decimal", "header", …
    """

    details: Mapping[str, str]
    tables: tuple[TableFile, ...]
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The duration of each step of reading, for benchmarks."""


@dataclass(frozen=True)
class ReadLimits:
    """The resources that reading one file may use, and the size of the result."""

    memory_megabytes: int = 256
    """The memory that the process may use in addition to that of an idle process."""
    seconds: float = 8.0
    """The time limit for each begun 32 MB of the file."""
    max_bytes: int = 4_000_000_000
    """The maximum size of a file and, if it is compressed, of its whole content."""
    max_tables: int = 1_000
    max_columns: int = 1_000


class DataFileReader(Protocol):
    """Reads data files. They are not trusted: a file may be damaged, enormous or made to do harm."""

    def read(self, path: Path, name: str, folder: Path, report: ReportProgress) -> FileContent:
        """Read the file at `path`, which was uploaded under `name`, and write its tables to `folder`.

        Raise UnreadableFile if the file is damaged, has no table or exceeds a limit.
        """
        ...
