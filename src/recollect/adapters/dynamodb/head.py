"""The one item that puts commits in an order: how many there were, which were last, and the numbers drawn.

Every commit changes it on the condition that it is as it was when the commit was planned, so commits happen one after
the other, and what was read to plan one still holds when it happens. A commit that takes several transactions first
writes its name here; each of its transactions checks that the name still stands.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from recollect import clock
from recollect.adapters.dynamodb.client import Dynamo
from recollect.adapters.dynamodb.items import Item, Place

HEAD = Place("*head", "*")
STAGES = "*stages"
LEASE = 30.0
"""Seconds that a commit of several transactions may go without a sign of life."""

_REMEMBERED = 20
"""How many of the last commits are known by name: enough to tell whether one whose answer was lost has happened."""


class Stage(NamedTuple):
    """A commit of several transactions that is under way, and until when it counts as alive."""

    name: str
    until: datetime

    @property
    def left(self) -> float:
        """Seconds."""
        return (self.until - clock.now()).total_seconds()


class Head(NamedTuple):
    """The item as it was read."""

    commits: int
    drawn: Mapping[str, int]
    last: tuple[str, ...]
    stage: Stage | None
    exists: bool = True

    def after(self, name: str, drawn: Mapping[str, int]) -> "Head":
        """What it is after a commit."""
        return Head(self.commits + 1, {**self.drawn, **drawn}, (name, *self.last)[:_REMEMBERED], None)

    def staging(self, name: str) -> "Head":
        return self._replace(stage=Stage(name, clock.now() + timedelta(seconds=LEASE)), exists=True)


def read_head(dynamo: Dynamo) -> Head:
    item = dynamo.get(HEAD)
    if item is None:
        return Head(0, {}, (), None, exists=False)
    stage = item.get("stage")
    return Head(
        int(item["count"]["N"]),
        {name: int(value["N"]) for name, value in item["drawn"]["M"].items()},
        tuple(item["last"]["S"].split()),
        Stage(stage["M"]["name"]["S"], clock.from_micros(int(stage["M"]["until"]["N"]))) if stage else None,
    )


def written(head: Head) -> Item:
    item: Item = {
        **HEAD.key,
        "count": {"N": str(head.commits)},
        "drawn": {"M": {name: {"N": str(value)} for name, value in head.drawn.items()}},
        "last": {"S": " ".join(head.last)},
    }
    if head.stage is not None:
        item["stage"] = {"M": {"name": {"S": head.stage.name}, "until": {"N": str(clock.micros(head.stage.until))}}}
    return item


def replacing(seen: Head, head: Head) -> dict[str, Any]:
    """Puts the head in place of the one seen, if that one is still there."""
    put: dict[str, Any] = {"Item": written(head)}
    if not seen.exists:
        return {"Put": {**put, "ConditionExpression": "attribute_not_exists(p)"}}
    names = {"#count": "count", "#stage": "stage"}
    values: Item = {":count": {"N": str(seen.commits)}}
    condition = "#count = :count AND "
    if seen.stage is None:
        condition += "attribute_not_exists(#stage)"
    else:
        condition += "#stage.#name = :name"
        names["#name"] = "name"
        values[":name"] = {"S": seen.stage.name}
    return {
        "Put": {
            **put,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }
    }


def still_staging(name: str) -> dict[str, Any]:
    """Holds as long as nobody has taken the place of a commit that is under way."""
    return {
        "ConditionCheck": {
            "Key": HEAD.key,
            "ConditionExpression": "#stage.#name = :name",
            "ExpressionAttributeNames": {"#stage": "stage", "#name": "name"},
            "ExpressionAttributeValues": {":name": {"S": name}},
        }
    }
