"""Tables: columns derived from an entity's annotations, and the rules that the catalog declares for them.

A `Table` is plain data, so it can be compiled to SQL, to DynamoDB keys, to checks in Python, or to JSON.
"""

from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen
from pydantic import StringConstraints
from pydantic.fields import FieldInfo

from everhold.model.base import Row
from everhold.values import Value, value_class

TENANT = "organization_id"
_BIG = 2**62  # bounds beyond it only say that a number fits 64 bits, which every store checks anyway


class Kind(StrEnum):
    """The kinds of value that every store supports."""

    TEXT = "text"
    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    TIME = "time"
    JSON = "json"
    BYTES = "bytes"
    VECTOR = "vector"


@value_class
class Column(Value):
    """A column. The store enforces `low`, `high` and `one_of` as well."""

    name: str
    kind: Kind
    nullable: bool = False
    width: int | None = None
    low: float | None = None
    high: float | None = None
    one_of: tuple[str, ...] = ()


@value_class
class Lookup(Value):
    """An index over the organization and these columns. It leaves out rows whose first column is None.

    `only_false` leaves out the rows whose first column is true. It is for a flag that is nearly always true: the rare
    rows are found quickly, and most writes do not touch the index.
    """

    columns: tuple[str, ...]
    only_false: bool = False


@value_class
class Unique(Value):
    """A rule that no two rows of an organization have the same values of these columns. None equals None.

    The rule does not apply to rows whose column `when` is None, nor to rows whose column `unless` is not None. It
    applies to deleted rows only with `always`.
    """

    name: str
    columns: tuple[str, ...]
    when: str | None = None
    always: bool = False
    unless: str | None = None


@value_class
class Reference(Value):
    """A foreign key: a row of this table belongs to a row of another one, in the same organization.

    `kind` is a column and a value; the reference applies only to rows with that value.
    """

    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...] = ("id",)
    on_delete: Literal["cascade", "set_null"] = "cascade"
    kind: tuple[str, str] | None = None


@value_class
class Table(Value):
    """The columns, the key and the rules of one entity's rows.

    `generated` is the column whose number the store generates for each row. `internal` tables hold the engine's own
    state and are neither exported nor imported.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = (TENANT, "id")
    lookups: tuple[Lookup, ...] = ()
    uniques: tuple[Unique, ...] = ()
    references: tuple[Reference, ...] = ()
    generated: str | None = None
    internal: bool = field(default=False, compare=False)  # not part of how rows are stored
    by_name: dict[str, Column] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})
        object.__setattr__(self, "names", tuple(self.by_name))

    @property
    def tenant(self) -> str | None:
        """The column with the organization's id; None for tables that belong to no organization."""
        if TENANT in self.by_name:
            return TENANT
        return "id" if self.name == "organizations" else None

    @property
    def soft(self) -> bool:
        """Whether rows are soft-deleted before they are purged."""
        return "is_deleted" in self.by_name

    @property
    def versioned(self) -> bool:
        """Whether rows have a version that every patch increments and may check."""
        return "version" in self.by_name and "version" not in self.key


def derive_columns(entity: type[Row]) -> tuple[Column, ...]:
    """Return the columns that an entity's annotations declare, the key first."""
    fields = entity.model_fields
    first = [name for name in (TENANT, "id") if name in fields]
    names = first + [name for name in fields if name not in first]
    return tuple(_derive_column(name, fields[name]) for name in names)


def _derive_column(name: str, info: FieldInfo) -> Column:
    base, marks, nullable = _unwrap(info.annotation, list(info.metadata))
    one_of = tuple(get_args(base)) if get_origin(base) is Literal else ()
    kind = _find_kind(base, marks)
    low, high = _find_bounds(marks) if kind in (Kind.INTEGER, Kind.REAL) else (None, None)
    width = _find_width(marks) if kind is Kind.TEXT else None
    return Column(name, kind, nullable or base is Any, width, low, high, one_of)


def _unwrap(annotation: Any, marks: list[Any]) -> tuple[Any, list[Any], bool]:
    """Return the type inside an annotation, all its metadata after `marks`, and whether the value may be None."""
    nullable = False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *own_marks = get_args(annotation)
            marks = marks + own_marks
        elif origin in (Union, UnionType):
            options = [option for option in get_args(annotation) if option is not NoneType]
            nullable, annotation = nullable or len(options) < len(get_args(annotation)), options[0]
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


def _find_kind(base: Any, marks: Iterable[Any]) -> Kind:
    if "vector" in [mark for mark in marks if isinstance(mark, str)]:
        return Kind.VECTOR
    return _KINDS[get_origin(base) or base]


def _flatten(marks: Iterable[Any]) -> list[Any]:
    flat_marks: list[Any] = []
    for mark in marks:
        flat_marks.extend(mark.metadata if isinstance(mark, FieldInfo) else [mark])
    return flat_marks


def _find_width(marks: Iterable[Any]) -> int | None:
    for mark in _flatten(marks):
        if isinstance(mark, StringConstraints) and mark.max_length is not None:
            return mark.max_length
        if isinstance(mark, MaxLen):
            return mark.max_length
    return None


def _find_bounds(marks: Iterable[Any]) -> tuple[float | None, float | None]:
    low = high = None
    for mark in _flatten(marks):
        if isinstance(mark, Ge) and isinstance(mark.ge, int | float) and mark.ge > -_BIG:
            low = mark.ge
        if isinstance(mark, Le) and isinstance(mark.le, int | float) and mark.le < _BIG:
            high = mark.le
    return low, high
