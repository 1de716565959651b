"""The conditions and operations that a store takes, and the results that it returns."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from everhold.model.base import Row
from everhold.values import Value, value_class

if TYPE_CHECKING:
    from everhold.model.change_feed import Outbox


class Op(StrEnum):
    """The operators of a condition. None equals only None; it is neither less nor greater than any value."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    CONTAINS = "contains"


@value_class
class Where(Value):
    """One condition on one field; `metadata.device.os` looks inside JSON.

    CONTAINS matches a part of a text, ignoring case, or a member of a list.
    """

    field: str
    op: Op
    value: Any


@value_class
class AllOf(Value):
    """True if all of the conditions are true."""

    conditions: "tuple[Condition, ...]"


@value_class
class AnyOf(Value):
    """True if at least one of the conditions is true."""

    conditions: "tuple[Condition, ...]"


@value_class
class Not(Value):
    """True if the condition is false. A comparison with None is false, so its negation is true."""

    condition: "Condition"


Condition = Where | AllOf | AnyOf | Not


@value_class
class Put(Value):
    """Add a row. Raise AlreadyExists if a row has the same key, or the same values in the columns of a unique rule."""

    row: Row


@value_class
class Ensure(Value):
    """Add a row unless a row with its key exists, live or deleted."""

    row: Row


@value_class
class Patch(Value):
    """Set fields of the row with this key and increment its version.

    Raise StaleVersion if the row does not exist, or if `version` is passed and the row has another version.
    """

    entity: type[Row]
    key: tuple[Any, ...]
    changes: Mapping[str, Any]
    version: int | None = None


@value_class
class Increment(Value):
    """Add `amounts` to numbers and set `changes`, but keep the version. Do nothing if the row does not exist."""

    entity: type[Row]
    key: tuple[Any, ...]
    amounts: Mapping[str, int]
    changes: Mapping[str, Any] = field(default_factory=dict)


@value_class
class Hide(Value):
    """Soft-delete a row and all rows that belong to it, under one deletion id. Do nothing if it is deleted already."""

    entity: type[Row]
    key: tuple[Any, ...]
    deletion_id: str
    at: datetime


@value_class
class Unhide(Value):
    """Restore exactly the rows that one deletion id has hidden."""

    organization_id: str
    deletion_id: str


@value_class
class Delete(Value):
    """Purge a row and all rows that belong to it. Rows that only mention it stay, with the mention set to None.

    Do nothing if the row does not exist.
    """

    entity: type[Row]
    key: tuple[Any, ...]


@value_class
class Require(Value):
    """Change nothing. Raise BrokenReference unless a live row has this key, so that a deleted row gets no new ones."""

    entity: type[Row]
    key: tuple[Any, ...]


Operation = Put | Ensure | Patch | Increment | Hide | Unhide | Delete | Require


@value_class
class Page(Value):
    """The position after which a scan continues: the last row's key, and its value in the column of the order."""

    value: Any
    key: tuple[Any, ...]


@value_class
class Feed(Value):
    """Lines of the outbox, oldest first, and the position to continue from.

    Numbers are drawn before a transaction commits. While one with a lower number may still commit, the position stays
    before it, so later lines are returned again by the next call. A follower must tolerate repeated lines.
    """

    lines: "list[Outbox]"
    position: int


@value_class
class SettledLines(Value):
    """Lines of the outbox in the order of their numbers: no line with a lower number can appear later.

    `last` is the highest number that is visible. Lines up to it may still be unsettled.
    """

    lines: "list[Outbox]"
    last: int


@value_class
class Traits(Value):
    """A store's name, abilities and limits.

    `words` and `vectors` say whether the store has its own index ("native") or Everhold's code searches ("portable").
    `commit_limit` is the maximum number of operations of a commit. `ordered` means that generated numbers become
    visible in their order. `erasure_note` says what an operator must still do after `maintain(erased=True)` to remove
    purged rows from files.
    """

    name: str
    words: Literal["native", "portable"]
    vectors: Literal["native", "portable"]
    commit_limit: int
    ordered: bool = True
    details: Mapping[str, str] = field(default_factory=dict)
    erasure_note: str = ""
