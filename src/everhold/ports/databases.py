"""Connected databases: their addresses, the profiles of their tables, and the port that makes a profile."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from everhold.ports.data_files import ColumnStatistics, TableFile
from everhold.ports.table_content import DeclaredKey
from everhold.progress import ReportProgress

ALL_PUBLIC = "public"
"""The entry of a list of hosts that means all addresses of the public internet."""


@dataclass(frozen=True)
class DatabaseAddress:
    """The parts of a database's URL. `str()` shows it without its secret.

    `driver` is postgres, mysql, sqlite, duckdb, sqlalchemy or adbc; `dialect` is the name of its SQL. For a file,
    `database` is its path. `url` is the whole URL.
    """

    driver: str
    dialect: str
    url: str = field(repr=False)
    shown: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        """Whether the database is a file of this machine."""
        return self.driver in ("sqlite", "duckdb") or (self.driver == "adbc" and self.dialect == "sqlite")

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True)
class DatabaseTables:
    """The tables of a connected database. Results are cached only if there is a `version`, which names the content.

    `hosts` are the hosts that may be connected to; see the setting `connections.hosts`. The role of the address should
    be able to read these tables and nothing else; a role that can read files of the server is refused.
    """

    address: DatabaseAddress
    schema: str | None = None
    hosts: tuple[str, ...] = (ALL_PUBLIC,)
    version: str | None = None

    @property
    def dialect(self) -> str:
        return self.address.dialect


@dataclass(frozen=True)
class TableProfile:
    """A table of a database with the statistics of its columns.

    `notes` are sentences about values that are estimates.
    """

    name: str
    row_count: int
    columns: tuple[ColumnStatistics, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[DeclaredKey, ...] = ()
    notes: tuple[str, ...] = ()
    is_view: bool = False


ProfiledTable = TableFile | TableProfile


@dataclass(frozen=True)
class DatabaseProfile:
    """The tables of a database, by name. `server` is its product and version, `notes` are sentences about all of it."""

    server: str
    tables: tuple[TableProfile, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProfileLimits:
    """The limits of one profile. When the time is used up, the profiles of the remaining tables only list columns."""

    seconds: float = 60.0
    statement_seconds: float = 5.0
    megabytes: int = 512
    sample_rows: int = 20_000
    max_tables: int = 1_000
    max_columns: int = 1_000


class DatabaseProfiler(Protocol):
    """Reads the catalog of a database and statistics of its tables, without reading large tables to their end."""

    def profile(self, data: DatabaseTables, limits: ProfileLimits, report: ReportProgress) -> DatabaseProfile:
        """Return the tables that the role may read.

        Raise DataUnavailable if the database cannot be reached in time, and InvalidInput if its host is not allowed.
        """
        ...
