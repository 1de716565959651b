"""What a source is: how a file of another system is recognised, and the drafts that it is read as."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple

from everhold.importers.files import ForeignFiles
from everhold.importers.local_dates import DateOrder
from everhold.ports.foreign_tables import ForeignTables

RecordKind = Literal["user", "session", "message", "memory", "relationship", "state", "agent"]
RECORD_KINDS: tuple[RecordKind, ...] = ("user", "session", "message", "memory", "relationship", "state", "agent")


class RowDraft(NamedTuple):
    """A row of another system, with our names for its fields and its own values. `records.py` checks the values."""

    kind: RecordKind
    origin: str
    """The table or the list that it comes from, by its name there."""
    place: str
    """Where in the input it stands, for messages: "interactions row 17"."""
    fields: Mapping[str, Any]


class BadRow(NamedTuple):
    """A row that cannot be imported, and why."""

    origin: str
    place: str
    reason: str
    row: Any
    """The fields of its draft, or if it has none the row itself."""
    kind: RecordKind | None = None


class LeftOut(NamedTuple):
    """Rows that have no place here, such as another system's access log."""

    origin: str
    reason: str
    rows: int = 1


SourceItem = RowDraft | BadRow | LeftOut


def report_unread(tables: ForeignTables, *read: str) -> Iterator[LeftOut]:
    """Yield the tables of a database that hold rows and are not read, except those that number its versions."""
    for table in tables.columns:
        if table not in read and "migration" not in table and (count := tables.count_rows(table)):
            yield LeftOut(table, "the system is not known to have this table", count)


@dataclass(frozen=True)
class Sample:
    """The beginning of an input, by which its source is recognised."""

    name: str
    head: str | None = None
    """The first characters of a text file; None if the input is not text."""
    outline: Any = None
    """The JSON value that the file begins with, as far as it is in `head`."""
    lines: Sequence[Any] = ()
    """The JSON values of the first lines, if the file has one on each line."""
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The columns of each table, if the input is a database."""
    members: Sequence[str] = ()
    """The names of the files, if the input is a folder or a zip archive."""
    databases: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """The tables of each database in the folder, with their columns."""

    def has_tables(self, **columns: str) -> bool:
        """Return whether each table has these columns, which are separated by blanks."""
        return all(
            name in self.tables and set(words.split()) <= set(self.tables[name]) for name, words in columns.items()
        )


@dataclass(frozen=True)
class ImportInput:
    """One input that is imported."""

    files: ForeignFiles
    modified_at: datetime
    """When the input was last changed: the time of messages that have none."""
    known_users: Collection[str] = ()
    """Users that the caller names. Some systems have ids that begin with a user of unknown length."""
    date_order: DateOrder | None = None
    """The order of day and month in dates that do not tell it."""


@dataclass(frozen=True)
class ImportSource:
    """One system, or one format, whose data can be imported."""

    name: str
    description: str
    detect: Callable[[Sample], float]
    """Returns how sure it is that the input is its own, from 0 to 1."""
    read: Callable[[ImportInput], Iterator[SourceItem]]
    """Yields the rows of the input: users and sessions before messages, and memories before their relationships."""
    naive_zone: tzinfo | None = None
    """The zone of times without one, if the system always writes the same."""
    find_members: Callable[[Sample], Collection[str]] | None = None
    """Returns which files of a folder or archive it reads together; None if it reads single files only."""
