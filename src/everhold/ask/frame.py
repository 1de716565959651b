"""`QueryFrame`, which describes what a question asks for. `sql.py` writes it as SQL.

Frames come from the rules, from learned patterns and from language models.
"""

from dataclasses import dataclass
from enum import StrEnum

from everhold.ask.schema import ColumnRef

Literal = str | int | float


class Function(StrEnum):
    """A function that makes one value of several rows."""

    COUNT = "count"
    SUM = "sum"
    AVERAGE = "avg"
    MINIMUM = "min"
    MAXIMUM = "max"
    COMPUTED = "computed"  # the formula of a metric computes the value


class WindowKind(StrEnum):
    """The relation of a group's value to the values of other groups: its share, the running total or the change."""

    SHARE = "share"
    RUNNING = "running"
    CHANGE = "change"


@dataclass(frozen=True)
class Expression:
    """A column, a function of a column, or without a column the number of rows.

    `of_table` is the table whose rows a count counts. `grain` truncates a date to a period such as "month". A share
    with a `condition` is the share of the rows that meet it, not the share of a group. An aggregate with `per` is
    divided by the number of different values of that column: "orders per customer".
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
    """A comparison of an expression with literals, or with the single value of a frame (a subquery).

    Operators: = != < <= > >= between in like, and "is null". `negated` negates the whole predicate. With `half_open`,
    the upper bound of "between" is not included, as is usual for periods.
    """

    left: Expression
    operator: str
    values: tuple[Literal, ...] = ()
    frame: "QueryFrame | None" = None
    negated: bool = False
    half_open: bool = False


@dataclass(frozen=True)
class AnyPredicate:
    """Predicates joined by OR: at least one of them must be true."""

    choices: tuple[Predicate, ...]


@dataclass(frozen=True)
class Membership:
    """The condition that the value of a column is among the rows of another frame, or is not if `negated`."""

    column: ColumnRef
    frame: "QueryFrame"
    negated: bool = False


@dataclass(frozen=True)
class Ordering:
    """An expression that the rows are sorted by."""

    expression: Expression
    descending: bool = False


class SetOperation(StrEnum):
    """The operator that combines the rows of two frames."""

    INTERSECT = "intersect"
    UNION = "union"
    EXCEPT = "except"


@dataclass(frozen=True)
class QueryFrame:
    """The content of one question. An empty `select` means all columns of `entity`.

    `entity` is the main table, and `joined` are tables that are only needed to connect others.
    """

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
    # The keys to use where several keys link the same tables.
    via: tuple[ColumnRef, ...] = ()
