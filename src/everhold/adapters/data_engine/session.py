"""A connection to a database inside the process of a query, with the methods that every kind of database has."""

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

    `row_estimate` is the database's own estimate of the number of rows, or None. Each foreign key is a tuple of a
    column, the table to which it refers, and the column of that table.
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
    """Sentences that warn the user about the rights of the database role."""

    def read_rows(self, sql: str) -> RowStream:
        """Return the rows of a checked statement."""
        ...

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        """Run a statement of Everhold itself and return its rows. The database should end it after `seconds`."""
        ...

    def list_tables(self) -> list[CatalogTable]:
        """Return the tables and views that the role may read, by name."""
        ...
