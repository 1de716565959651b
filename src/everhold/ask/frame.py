"""QueryFrame: what a question asks for. Rules, memory and a language model all produce it; only `sql.py` reads it."""

from dataclasses import dataclass
from enum import StrEnum

from everhold.ask.schema import ColumnRef

Literal = str | int | float


class Function(StrEnum):
    """How the values of several rows become one value."""

    COUNT = "count"
    SUM = "sum"
    AVERAGE = "avg"
    MINIMUM = "min"
    MAXIMUM = "max"
    COMPUTED = "computed"  # by the formula of a metric


class WindowKind(StrEnum):
    """How a value of a group relates to those of the other groups."""

    SHARE = "share"
    RUNNING = "running"
    CHANGE = "change"


@dataclass(frozen=True)
class Expression:
    """A column, a function of a column, or with no column the number of rows.

    `of_table` names the table whose rows a count is about. `grain` cuts a date to a period such as "month".
    A share with a `condition` is that of the rows that meet it, not that of a group. A figure with `per` is divided by
    the number of different values of that column: "orders per customer".
    """

    column: ColumnRef | None = None
    function: Function | None = None
    distinct: bool = False
    of_table: str | None = None
    grain: str | None = None
    window: WindowKind | None = None
    condition: "Predicate | None" = None
    per: ColumnRef | None = None

    @property
    def is_aggregate(self) -> bool:
        return self.function is not None


@dataclass(frozen=True)
class Predicate:
    """A comparison: of an expression with literals, with another column, or with the single value of a frame.

    Operators: = != < <= > >= between in like, and "is null". `negated` turns the whole predicate around. For
    "between" with `half_open`, the end itself is left out, as periods need it.
    """

    left: Expression
    operator: str
    values: tuple[Literal, ...] = ()
    frame: "QueryFrame | None" = None
    negated: bool = False
    half_open: bool = False


@dataclass(frozen=True)
class AnyPredicate:
    """Predicates of which at least one holds."""

    choices: tuple[Predicate, ...]


@dataclass(frozen=True)
class Membership:
    """Whether the value of a column is among the rows of another frame: related rows that exist or are absent."""

    column: ColumnRef
    frame: "QueryFrame"
    negated: bool = False


@dataclass(frozen=True)
class Ordering:
    """What the rows are sorted by."""

    expression: Expression
    descending: bool = False


class SetOperation(StrEnum):
    """How the rows of two frames are combined."""

    INTERSECT = "intersect"
    UNION = "union"
    EXCEPT = "except"


@dataclass(frozen=True)
class QueryFrame:
    """One question. An empty `select` means all columns of `entity`; `joined` are tables that only link others."""

    entity: str
    select: tuple[Expression, ...] = ()
    distinct: bool = False
    where: tuple[Predicate | AnyPredicate | Membership, ...] = ()
    group: tuple[Expression, ...] = ()
    having: tuple[Predicate, ...] = ()
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    joined: tuple[str, ...] = ()
    combined: "tuple[SetOperation, QueryFrame] | None" = None
    # Where two keys link the same tables: the one that the question means.
    via: tuple[ColumnRef, ...] = ()
