"""The parts of a preset of legacy views: the views, the tables of their rows, and the source of each column.

SQL in a declaration is the same for every database. `t` is the table of the rows. A name after `@` is replaced by the
compiler: `@memories` is a table of the catalog, and the other names are in `ViewDialect.words`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from everhold.schema.table import Kind


@dataclass(frozen=True)
class SqlExpression:
    """A column that is computed."""

    kind: Kind
    sql: str


@dataclass(frozen=True)
class RenamedValues:
    """A column of ours in which some values have other names in the legacy system."""

    column: str
    names: Mapping[str, str]


@dataclass(frozen=True)
class HexDigest:
    """A column of bytes, written as hexadecimal digits."""

    column: str


@dataclass(frozen=True)
class RowNumber:
    """A column with a number that identifies a row, for a table without an id column."""


@dataclass(frozen=True)
class AbsentColumn:
    """A column of the legacy system that Everhold has no value for. It is NULL, with this kind."""

    kind: Kind
    reason: str


# A text is the name of a column of ours.
ColumnSource: TypeAlias = str | SqlExpression | RenamedValues | HexDigest | RowNumber | AbsentColumn


@dataclass(frozen=True)
class ViewRows:
    """The rows that a view shows of one table.

    Deleted rows, expired rows and memories that are not current are always left out. `where` is a further condition.
    `owners` maps columns to the tables to which they refer; a row is shown only while the rows to which it refers are
    shown.
    """

    table: str
    columns: Mapping[str, ColumnSource]
    where: str = ""
    owners: Mapping[str, str] | None = None


@dataclass(frozen=True)
class LegacyView:
    """One view. If it has rows of several tables, each of these declares the same columns in the same order."""

    name: str
    rows: tuple[ViewRows, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.rows[0].columns)


@dataclass(frozen=True)
class ViewPreset:
    """The views of one legacy system.

    `name` is also the name of the schema that the views are created in. `alias` is a short name for it. Times are shown
    as the local time at `utc_offset_hours`; with `has_zones`, they are shown with their zone by databases that can.
    `has_organizations` says that the legacy system itself separates organizations.
    """

    name: str
    alias: str
    summary: str
    views: tuple[LegacyView, ...]
    utc_offset_hours: int = 0
    has_zones: bool = False
    has_organizations: bool = False


def declare_view(
    name: str,
    table: str,
    columns: Mapping[str, ColumnSource],
    *,
    where: str = "",
    owners: Mapping[str, str] | None = None,
) -> LegacyView:
    """Return a view of the rows of one table."""
    return LegacyView(name, (ViewRows(table, columns, where, owners),))
