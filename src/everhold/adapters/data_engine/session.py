"""A connection to a database inside the process of a query: what every kind of database offers there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from everhold.adapters.data_engine.child import RowStream


@dataclass(frozen=True)
class CatalogColumn:
    """A column as the catalog of a database names it."""

    name: str
    data_type: str


@dataclass
class CatalogTable:
    """A table or a view as the catalog of a database describes it.

    `row_estimate` is what the database believes, if it does. A foreign key is a column, a table and a column of it.
    """

    name: str
    is_view: bool = False
    row_estimate: int | None = None
    columns: list[CatalogColumn] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    unique_columns: set[str] = field(default_factory=set)
    foreign_keys: list[tuple[str, str, str]] = field(default_factory=list)


class DatabaseSession(Protocol):
    """A read-only connection that has given up all other rights."""

    server: str
    """The product and its version."""
    notes: list[str]
    """What the user should know about the role, as sentences."""

    def read_rows(self, sql: str) -> RowStream:
        """Return the rows of a checked statement."""
        ...

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        """Return the rows of one of our own statements, which the database should end after some seconds."""
        ...

    def list_tables(self) -> list[CatalogTable]:
        """Return the tables and views that the role may read, by name."""
        ...
