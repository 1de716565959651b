"""The port to a database that another program wrote: its tables and their rows, read-only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

ForeignRow = Mapping[str, Any]


@runtime_checkable
class ForeignTables(Protocol):
    """The tables of a database of another program."""

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The names of each table's columns, by the name of the table. Views and virtual tables are not listed."""

    def read_rows(self, table: str, order: Sequence[str] = ()) -> Iterator[ForeignRow]:
        """Yield the rows of a table as values by column, in the order of these columns.

        A text that is not UTF-8 is returned as bytes. Raise UnreadableFile if the file is damaged.
        """

    def count_rows(self, table: str) -> int:
        """Return the number of rows of a table."""


# Opens a file as a database; raises UnreadableFile if the file is not a database.
OpenTables = Callable[[Path], AbstractContextManager[ForeignTables]]
