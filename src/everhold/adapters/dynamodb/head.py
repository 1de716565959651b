"""The one item that puts commits in an order: how many there were, which were last, and the numbers drawn.

Every commit changes it on the condition that it is as it was when the commit was planned, so commits happen one after
the other, and what was read to plan one still holds when it happens. A commit that takes several transactions first
writes its name here; each of its transactions checks that the name still stands. The name stays until no item is staged
any more, so a staged item always is of the commit that the head names.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, cast

from everhold import clock
from everhold.adapters.dynamodb.client import Dynamo
from everhold.adapters.dynamodb.items import Item, Place

HEAD = Place("*head", "*")
STAGES = "*stages"
LEASE = 30.0
"""Seconds that a commit of several transactions may go without a sign of life."""

_REMEMBERED = 20
"""How many of the last commits are known by name: enough to tell whether one whose answer was lost has happened."""


Outcome = Literal["open", "done", "undone"]
"""Of a commit of several transactions: not decided yet, has happened, never will. Once decided, it stays so."""


class Stage(NamedTuple):
    """A commit of several transactions, until when whoever makes it counts as alive, and what became of it."""

    name: str
    until: datetime
    outcome: Outcome = "open"

    @property
    def left(self) -> float:
        """Seconds."""
        return (self.until - clock.now()).total_seconds()


class Head(NamedTuple):
    """The item as it was read."""

    commits: int
    generated: Mapping[str, int]
    last: tuple[str, ...]
    stage: Stage | None
    exists: bool = True

    def after(self, name: str, generated: Mapping[str, int]) -> "Head":
        """What it is after a commit."""
        return Head(self.commits + 1, {**self.generated, **generated}, (name, *self.last)[:_REMEMBERED], None)

    def staging(self, name: str, outcome: Outcome = "open") -> "Head":
        """What it is while a commit is under way."""
        return self._replace(stage=Stage(name, clock.now() + timedelta(seconds=LEASE), outcome), exists=True)

    @property
    def indexes_lag(self) -> bool:
        """Whether a commit has happened some of whose rows are still found by the values they had before."""
        return self.stage is not None and self.stage.outcome == "done"


def read_head(dynamo: Dynamo) -> Head:
    item = dynamo.get(HEAD)
    if item is None:
        return Head(0, {}, (), None, exists=False)
    return Head(
        int(item["count"]["N"]),
        {name: int(value["N"]) for name, value in item["drawn"]["M"].items()},
        tuple(item["last"]["S"].split()),
        _stage_of(item["stage"]["M"]) if "stage" in item else None,
    )


def _stage_of(held: Item) -> Stage:
    outcome = cast("Outcome", held["outcome"]["S"])
    return Stage(held["name"]["S"], clock.from_micros(int(held["until"]["N"])), outcome)


def written(head: Head) -> Item:
    item: Item = {
        **HEAD.key,
        "count": {"N": str(head.commits)},
        "drawn": {"M": {name: {"N": str(value)} for name, value in head.generated.items()}},
        "last": {"S": " ".join(head.last)},
    }
    if head.stage is not None:
        name, until, outcome = head.stage
        held = {"name": {"S": name}, "until": {"N": str(clock.micros(until))}, "outcome": {"S": outcome}}
        item["stage"] = {"M": held}
    return item


def replacing(seen: Head, head: Head) -> dict[str, Any]:
    """Puts the head in place of the one seen, if that one is still there."""
    put: dict[str, Any] = {"Item": written(head)}
    if not seen.exists:
        return {"Put": {**put, "ConditionExpression": "attribute_not_exists(p)"}}
    condition = _as_seen(seen.stage)
    condition["ConditionExpression"] += " AND #count = :count"
    condition["ExpressionAttributeNames"]["#count"] = "count"
    condition.setdefault("ExpressionAttributeValues", {})[":count"] = {"N": str(seen.commits)}
    return {"Put": {**put, **condition}}


def still_staging(stage: Stage) -> dict[str, Any]:
    """Holds as long as nobody has taken a commit that is under way for dead."""
    return {"ConditionCheck": {"Key": HEAD.key, **_as_seen(stage)}}


def _as_seen(stage: Stage | None) -> dict[str, Any]:
    """That the head names this commit, with this outcome; until when it counts as alive does not matter."""
    if stage is None:
        condition = "attribute_not_exists(#stage)"
        return {"ConditionExpression": condition, "ExpressionAttributeNames": {"#stage": "stage"}}
    return {
        "ConditionExpression": "#stage.#name = :name AND #stage.#outcome = :outcome",
        "ExpressionAttributeNames": {"#stage": "stage", "#name": "name", "#outcome": "outcome"},
        "ExpressionAttributeValues": {":name": {"S": stage.name}, ":outcome": {"S": stage.outcome}},
    }
