"""The interface of sources: how the files of another system are recognised and read as drafts."""

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
    """The name of the table or list in the other system that it comes from."""
    place: str
    """The position in the input, for messages: "interactions row 17"."""
    fields: Mapping[str, Any]


class BadRow(NamedTuple):
    """A row that cannot be imported, and why."""

    origin: str
    place: str
    reason: str
    row: Any
    """The fields of its draft, or the row itself if no draft could be made."""
    kind: RecordKind | None = None


class LeftOut(NamedTuple):
    """Rows that cannot be imported because Everhold has no table for them, such as another system's access log."""

    origin: str
    reason: str
    rows: int = 1


SourceItem = RowDraft | BadRow | LeftOut


def are_mostly(rows: Collection[Any], is_known: Callable[[Any], bool]) -> bool:
    """Return whether more than half of the rows of a sample are known. A few bad rows do not hide their system."""
    return sum(map(is_known, rows)) * 2 > len(rows)


def report_unread(tables: ForeignTables, *tables_read: str) -> Iterator[LeftOut]:
    """Yield the tables that have rows and are not in `tables_read`, except tables with versions of the schema."""
    for table in tables.columns:
        if table not in tables_read and "migration" not in table and (count := tables.count_rows(table)):
            yield LeftOut(table, "the system is not known to have this table", count)


@dataclass(frozen=True)
class Sample:
    """The beginning of an input, by which its source is recognised."""

    name: str
    head: str | None = None
    """The first characters of a text file; None if the input is not text."""
    outline: Any = None
    """The JSON value at the beginning of the file, as far as `head` contains it."""
    lines: Sequence[Any] = ()
    """The JSON values of the first lines, if the file has one on each line."""
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The columns of each table, if the input is a database."""
    members: Sequence[str] = ()
    """The names of the files, if the input is a folder or a zip archive."""
    databases: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """The tables of each database in the folder, with their columns."""

    def has_tables(self, **columns: str) -> bool:
        """Return whether each of these tables has these columns.

        The columns are passed as text, separated by spaces.
        """
        return all(
            name in self.tables and set(column_names.split()) <= set(self.tables[name])
            for name, column_names in columns.items()
        )


@dataclass(frozen=True)
class ImportInput:
    """One input that is imported."""

    files: ForeignFiles
    modified_at: datetime
    """The time when the input was last changed. Messages without a time get it."""
    known_users: Collection[str] = ()
    """Users that the caller names. Some systems have ids that begin with a user of unknown length."""
    date_order: DateOrder | None = None
    """The order of day and month in ambiguous dates."""


@dataclass(frozen=True)
class ImportSource:
    """A system or format whose data can be imported."""

    name: str
    description: str
    detect: Callable[[Sample], float]
    """Returns the confidence, from 0 to 1, that the input comes from this system."""
    read: Callable[[ImportInput], Iterator[SourceItem]]
    """Yields the rows of the input: users and sessions before messages, and memories before their relationships."""
    naive_zone: tzinfo | None = None
    """The zone of times without one, if the system always writes the same."""
    find_members: Callable[[Sample], Collection[str]] | None = None
    """Returns which files of a folder or archive it reads together; None if it reads single files only."""
