"""What a table is: columns derived from an entity's annotations, and the rules declared beside them.

A `Table` is plain data, so it can be compiled to SQL, to DynamoDB keys, to checks in Python, or to JSON.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen
from pydantic import StringConstraints
from pydantic.fields import FieldInfo

from everhold.model.base import Row

TENANT = "organization_id"
_BIG = 2**62


class Kind(StrEnum):
    """The kinds of value every store can hold."""

    TEXT = "text"
    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    TIME = "time"
    JSON = "json"
    BYTES = "bytes"
    VECTOR = "vector"


@dataclass(frozen=True)
class Column:
    """One value of a row. `low`, `high` and `one_of` are checked by the store too."""

    name: str
    kind: Kind
    nullable: bool = False
    width: int | None = None
    low: float | None = None
    high: float | None = None
    one_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lookup:
    """Columns that rows are found by, after the organization. Rows whose first column is absent are left out.

    `only_false` leaves out the rows whose first column is true. It is for a flag that is nearly always true: the rare
    rows are found quickly, and the usual write costs nothing.
    """

    columns: tuple[str, ...]
    only_false: bool = False


@dataclass(frozen=True)
class Unique:
    """No two rows of an organization share these values; absent ones count as equal.

    Rows where `when` is absent are free of the rule, and rows where `unless` is present. So are deleted rows, unless
    the rule is for `always`.
    """

    name: str
    columns: tuple[str, ...]
    when: str | None = None
    always: bool = False
    unless: str | None = None


@dataclass(frozen=True)
class Reference:
    """A row of this table belongs to a row of another, in the same organization.

    `kind` restricts the reference to rows whose column of that name has that value.
    """

    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...] = ("id",)
    on_delete: Literal["cascade", "set_null"] = "cascade"
    kind: tuple[str, str] | None = None


@dataclass(frozen=True)
class Table:
    """The shape of one entity's rows.

    `drawn` names the number that the store draws for each row. `internal` tables hold the engine's own state: they are
    neither exported nor imported.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = (TENANT, "id")
    lookups: tuple[Lookup, ...] = ()
    uniques: tuple[Unique, ...] = ()
    references: tuple[Reference, ...] = ()
    drawn: str | None = None
    internal: bool = field(default=False, compare=False)  # not part of how rows are stored
    by_name: dict[str, Column] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})
        object.__setattr__(self, "names", tuple(self.by_name))

    @property
    def tenant(self) -> str | None:
        """The column that says whose row it is, if the table is anybody's."""
        if TENANT in self.by_name:
            return TENANT
        return "id" if self.name == "organizations" else None

    @property
    def soft(self) -> bool:
        """Whether rows are hidden before they are purged."""
        return "is_deleted" in self.by_name

    @property
    def versioned(self) -> bool:
        """Whether rows count their changes, so that a patch may ask for a version."""
        return "version" in self.by_name and "version" not in self.key


def columns_of(entity: type[Row]) -> tuple[Column, ...]:
    """The columns that an entity's annotations declare, its key first."""
    fields = entity.model_fields
    first = [name for name in (TENANT, "id") if name in fields]
    names = first + [name for name in fields if name not in first]
    return tuple(_column(name, fields[name]) for name in names)


def _column(name: str, info: FieldInfo) -> Column:
    base, marks, nullable = _unwrap(info.annotation, list(info.metadata))
    one_of = tuple(get_args(base)) if get_origin(base) is Literal else ()
    kind = _kind(base, marks)
    low, high = _bounds(marks) if kind in (Kind.INTEGER, Kind.REAL) else (None, None)
    width = _width(marks) if kind is Kind.TEXT else None
    return Column(name, kind, nullable or base is Any, width, low, high, one_of)


def _unwrap(annotation: Any, marks: list[Any]) -> tuple[Any, list[Any], bool]:
    nullable = False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *more = get_args(annotation)
            marks = marks + more
        elif origin in (Union, UnionType):
            options = [option for option in get_args(annotation) if option is not NoneType]
            nullable, annotation = True, options[0]
        else:
            return annotation, marks, nullable


_KINDS: dict[Any, Kind] = {
    str: Kind.TEXT,
    int: Kind.INTEGER,
    float: Kind.REAL,
    bool: Kind.BOOLEAN,
    datetime: Kind.TIME,
    bytes: Kind.BYTES,
    Any: Kind.JSON,
    dict: Kind.JSON,
    list: Kind.JSON,
    Literal: Kind.TEXT,
}


def _kind(base: Any, marks: Iterable[Any]) -> Kind:
    if "vector" in [mark for mark in marks if isinstance(mark, str)]:
        return Kind.VECTOR
    return _KINDS[get_origin(base) or base]


def _flat(marks: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for mark in marks:
        found.extend(mark.metadata if isinstance(mark, FieldInfo) else [mark])
    return found


def _width(marks: Iterable[Any]) -> int | None:
    for mark in _flat(marks):
        if isinstance(mark, StringConstraints) and mark.max_length is not None:
            return mark.max_length
        if isinstance(mark, MaxLen):
            return mark.max_length
    return None


def _bounds(marks: Iterable[Any]) -> tuple[float | None, float | None]:
    low = high = None
    for mark in _flat(marks):
        if isinstance(mark, Ge) and isinstance(mark.ge, int | float) and mark.ge > -_BIG:
            low = mark.ge
        if isinstance(mark, Le) and isinstance(mark.le, int | float) and mark.le < _BIG:
            high = mark.le
    return low, high
