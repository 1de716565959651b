"""What can be asked of a store and done to it, what it answers and what it is, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from everhold.model.base import Row
from everhold.model.housekeeping import Outbox


class Op(StrEnum):
    """What a condition compares. An absent value equals only an absent value and is never less or more."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    CONTAINS = "contains"


@dataclass(frozen=True)
class Where:
    """One condition on one field; `metadata.device.os` looks inside JSON.

    CONTAINS finds part of a text, ignoring case, or a member of a list.
    """

    field: str
    op: Op
    value: Any


@dataclass(frozen=True)
class AllOf:
    """Every one of the conditions."""

    conditions: "tuple[Condition, ...]"


@dataclass(frozen=True)
class AnyOf:
    """At least one of the conditions."""

    conditions: "tuple[Condition, ...]"


@dataclass(frozen=True)
class Not:
    """Rows that do not meet the condition. A comparison with an absent value is false, so its negation is true."""

    condition: "Condition"


Condition = Where | AllOf | AnyOf | Not


@dataclass(frozen=True)
class Put:
    """Adds a row. AlreadyExists if its key or a unique rule is taken."""

    row: Row


@dataclass(frozen=True)
class Ensure:
    """Adds a row unless its key is taken, by a live or a deleted row."""

    row: Row


@dataclass(frozen=True)
class Patch:
    """Sets fields of the row with this key and counts its version up. StaleVersion unless the row is there and,
    where `version` is given, has it."""

    entity: type[Row]
    key: tuple[Any, ...]
    changes: Mapping[str, Any]
    version: int | None = None


@dataclass(frozen=True)
class Increment:
    """Adds to numbers and sets fields without touching the version. A row that is gone is passed over."""

    entity: type[Row]
    key: tuple[Any, ...]
    amounts: Mapping[str, int]
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Hide:
    """Soft-deletes a live row and all that belongs to it, stamped with one deletion id. A row that is not live is
    passed over."""

    entity: type[Row]
    key: tuple[Any, ...]
    deletion_id: str
    at: datetime


@dataclass(frozen=True)
class Unhide:
    """Restores exactly what one deletion id hid."""

    organization_id: str
    deletion_id: str


@dataclass(frozen=True)
class Delete:
    """Purges a row and all that belongs to it; what merely mentions it forgets it. A row that is gone is passed
    over."""

    entity: type[Row]
    key: tuple[Any, ...]


Operation = Put | Ensure | Patch | Increment | Hide | Unhide | Delete


@dataclass(frozen=True)
class Page:
    """Where a scan goes on: the last row's value of the order column, and its key."""

    value: Any
    key: tuple[Any, ...]


@dataclass(frozen=True)
class Feed:
    """Lines of the outbox, oldest first, and the position to ask from next.

    Lines that might still be overtaken by a slower transaction are delivered, and delivered again next time; who
    follows must not mind.
    """

    lines: list[Outbox]
    position: int


@dataclass(frozen=True)
class Traits:
    """What a store does by itself, and its limits. `ordered`: drawn numbers become visible in their order."""

    name: str
    words: Literal["native", "portable"]
    vectors: Literal["native", "portable"]
    commit_limit: int
    ordered: bool = True
    details: Mapping[str, str] = field(default_factory=dict)
