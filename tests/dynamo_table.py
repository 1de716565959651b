"""A table in DynamoDB's server for tests, and a spy on what is sent to it."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from everhold import clock
from everhold.adapters.dynamodb import DynamoRecords
from everhold.adapters.dynamodb import client as limits
from everhold.adapters.dynamodb.items import measure
from everhold.model import Memory
from everhold.schema.operations import Where

ORGANIZATION = "acme"
NUMBERS = itertools.count()


def memory(name: str, **fields: Any) -> Memory:
    now = clock.now()
    given = {"id": name, "organization_id": ORGANIZATION, "created_at": now, "updated_at": now, "text": name}
    return Memory(**{**given, "kind": "observation", "reach": "organization", **fields})


def texts(records: DynamoRecords, *where: Where) -> set[str]:
    return {row.id for row in records.scan(Memory, ORGANIZATION, where)}


class Spy:
    """Notes every request that is sent, and does something before some."""

    def __init__(self, records: DynamoRecords, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.before: Callable[[str, dict[str, Any]], None] = lambda _, __: None
        client = records._dynamo._client
        for name in ("transact_write_items", "batch_write_item", "batch_get_item", "get_item", "query"):
            monkeypatch.setattr(client, name, self._record_calls(name, getattr(client, name)))

    def _record_calls(self, name: str, request: Callable[..., Any]) -> Callable[..., Any]:
        def send(**what: Any) -> Any:
            self.before(name, what)
            self.sent.append((name, what))
            return request(**what)

        return send

    def list_calls(self, name: str) -> list[dict[str, Any]]:
        return [what for sent, what in self.sent if sent == name]


def assert_within_limits(spy: Spy) -> None:
    for what in spy.list_calls("transact_write_items"):
        actions = what["TransactItems"]
        items = [one.get("Put", {}).get("Item", {}) for one in actions]
        assert len(actions) <= 100
        assert sum(map(measure, items)) <= limits.TRANSACTION_BYTES
        assert all(measure(item) <= limits.ITEM_BYTES for item in items)
        keys = [(one.get("Put", {}).get("Item") or next(iter(one.values()))["Key"]) for one in actions]
        assert len({(key["p"]["S"], key["s"]["S"]) for key in keys}) == len(keys), "one action per item"
    for what in spy.list_calls("batch_write_item"):
        [wanted] = what["RequestItems"].values()
        assert 1 <= len(wanted) <= 25
    for what in spy.list_calls("batch_get_item"):
        [asked] = what["RequestItems"].values()
        assert 1 <= len(asked["Keys"]) <= 100
        assert asked["ConsistentRead"] is True
    assert all(what["ConsistentRead"] is True for what in spy.list_calls("query"))
