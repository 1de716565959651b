"""The description of the tables in a data file or a database: names, declared keys and the values of each column."""

from dataclasses import dataclass

# A column's value as its database returns it.
Cell = str | int | float | bytes | None


@dataclass(frozen=True)
class ColumnContent:
    """A column with its distinct values, the most frequent first, up to the limit that was given to the reader.

    `unit` is the unit of its numbers, such as "EUR". `label` is the user's name for the column, or empty.
    """

    name: str
    declared_type: str
    values: tuple[Cell, ...]
    distinct_count: int
    null_count: int
    unit: str = ""
    label: str = ""


@dataclass(frozen=True)
class DeclaredKey:
    """A foreign key that the database declares."""

    column: str
    to_table: str
    to_column: str


@dataclass(frozen=True)
class TableContent:
    """A table with its columns in their order."""

    name: str
    row_count: int
    columns: tuple[ColumnContent, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[DeclaredKey, ...] = ()
