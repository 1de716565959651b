"""The head: the item that orders commits. It has their number, the names of the last ones and the generated numbers.

Every commit replaces the head on the condition that it is unchanged since the commit was planned. So commits are
serialized, and what was read for a plan is still true when it is committed. A commit of several transactions first
writes its name to the head; each of its transactions checks that the name is still there. The name stays until no item
is staged any more, so every staged item belongs to the commit that the head names.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, cast

from everhold import clock
from everhold.adapters.dynamodb.client import Dynamo
from everhold.adapters.dynamodb.items import Item, ItemKey

HEAD = ItemKey("*head", "*")
STAGES = "*stages"

# How many names of commits the head keeps, so that a commit whose answer was lost can be looked up.
_MAX_COMMIT_NAMES = 20


# The outcome of a commit of several transactions: undecided, committed, rolled back. Once decided, it stays so.
StageOutcome = Literal["open", "done", "undone"]


class Stage(NamedTuple):
    """A commit of several transactions, the end of its lease, and its outcome."""

    name: str
    until: datetime
    outcome: StageOutcome = "open"

    @property
    def seconds_left(self) -> float:
        """The seconds until the lease expires."""
        return (self.until - clock.now()).total_seconds()


class Head(NamedTuple):
    """The head: the number of commits, the last generated number by table, and the names of the last commits.

    `exists` is False until the first commit has stored a head.
    """

    commits: int
    generated: Mapping[str, int]
    commit_names: tuple[str, ...]
    stage: Stage | None
    exists: bool = True

    def make_next(self, name: str, generated: Mapping[str, int]) -> "Head":
        """Return the head after a commit."""
        names = (name, *self.commit_names)[:_MAX_COMMIT_NAMES]
        return Head(self.commits + 1, {**self.generated, **generated}, names, None)

    def make_staging(self, name: str, lease_seconds: float, outcome: StageOutcome = "open") -> "Head":
        """Return the head while a commit of several transactions runs."""
        until = clock.now() + timedelta(seconds=lease_seconds)
        return self._replace(stage=Stage(name, until, outcome), exists=True)

    @property
    def has_lagging_indexes(self) -> bool:
        """Whether the indexes still contain values from before a commit, because its items are not settled yet."""
        return self.stage is not None and self.stage.outcome == "done"


def read_head(dynamo: Dynamo) -> Head:
    """Return the table's head, or an empty head if there has been no commit."""
    item = dynamo.get(HEAD)
    if item is None:
        return Head(0, {}, (), None, exists=False)
    return Head(
        int(item["count"]["N"]),
        {name: int(value["N"]) for name, value in item["drawn"]["M"].items()},
        tuple(item["last"]["S"].split()),
        _decode_stage(item["stage"]["M"]) if "stage" in item else None,
    )


def _decode_stage(stage: Item) -> Stage:
    outcome = cast("StageOutcome", stage["outcome"]["S"])
    return Stage(stage["name"]["S"], clock.from_micros(int(stage["until"]["N"])), outcome)


def _encode_head(head: Head) -> Item:
    item: Item = {
        **HEAD.key,
        "count": {"N": str(head.commits)},
        "drawn": {"M": {name: {"N": str(value)} for name, value in head.generated.items()}},
        "last": {"S": " ".join(head.commit_names)},
    }
    if head.stage is not None:
        name, until, outcome = head.stage
        stage = {"name": {"S": name}, "until": {"N": str(clock.micros(until))}, "outcome": {"S": outcome}}
        item["stage"] = {"M": stage}
    return item


def make_head_update(seen: Head, head: Head) -> dict[str, Any]:
    """Return the action that replaces the head, on the condition that it is still the one seen."""
    put: dict[str, Any] = {"Item": _encode_head(head)}
    if not seen.exists:
        return {"Put": {**put, "ConditionExpression": "attribute_not_exists(p)"}}
    condition = _match_stage(seen.stage)
    condition["ConditionExpression"] += " AND #count = :count"
    condition["ExpressionAttributeNames"]["#count"] = "count"
    condition.setdefault("ExpressionAttributeValues", {})[":count"] = {"N": str(seen.commits)}
    return {"Put": {**put, **condition}}


def make_stage_check(stage: Stage) -> dict[str, Any]:
    """Return the check that a running commit has not been ended by another process."""
    return {"ConditionCheck": {"Key": HEAD.key, **_match_stage(stage)}}


def _match_stage(stage: Stage | None) -> dict[str, Any]:
    """Return the condition that the head names this commit with this outcome, under any lease."""
    if stage is None:
        condition = "attribute_not_exists(#stage)"
        return {"ConditionExpression": condition, "ExpressionAttributeNames": {"#stage": "stage"}}
    return {
        "ConditionExpression": "#stage.#name = :name AND #stage.#outcome = :outcome",
        "ExpressionAttributeNames": {"#stage": "stage", "#name": "name", "#outcome": "outcome"},
        "ExpressionAttributeValues": {":name": {"S": stage.name}, ":outcome": {"S": stage.outcome}},
    }
