"""Rows for tests of the DynamoDB store, and a client that records its requests."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from everhold import clock
from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
from everhold.adapters.dynamodb import client as limits
from everhold.adapters.dynamodb.client import make_client
from everhold.adapters.dynamodb.items import measure
from everhold.model import Memory
from everhold.schema.operations import Where

ORGANIZATION = "acme"
REQUESTS = frozenset((
    "transact_write_items", "batch_write_item", "batch_get_item", "get_item", "query", "create_table",
))  # fmt: skip
NUMBERS = itertools.count()


def use_options(**options: Any) -> pytest.MarkDecorator:
    """Give the table of a test these options."""
    return pytest.mark.parametrize("options", [options], indirect=True, ids=[""])


def make_client_error(code: str, *reasons: str) -> ClientError:
    """Return the driver's error for a code. For a transaction, `reasons` has the reason of each of its actions."""
    answer = {"Error": {"Code": code}, "CancellationReasons": [{"Code": reason} for reason in reasons]}
    return ClientError(answer, "a test")


def make_memory(name: str, **fields: Any) -> Memory:
    now = clock.now()
    defaults = {"id": name, "organization_id": ORGANIZATION, "created_at": now, "updated_at": now, "text": name}
    return Memory(**{**defaults, "kind": "observation", "reach": "organization", **fields})


def scan_ids(records: DynamoRecords, *where: Where) -> set[str]:
    return {row.id for row in records.scan(Memory, ORGANIZATION, where)}


class Spy:
    """A client that records its requests and lets a test interfere.

    It calls `before` with each request, and returns the result of `after` instead of the answer. If one of them raises
    an error, it looks as if the request or the answer was lost.
    """

    def __init__(self, options: DynamoOptions) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._client = make_client(options)
        self.reset()

    def reset(self) -> None:
        """Let all requests and answers pass unchanged."""
        self.before: Callable[[str, dict[str, Any]], object] = lambda _, __: None
        self.after: Callable[[str, dict[str, Any], Any], Any] = lambda _, __, answer: answer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in REQUESTS:
            return method

        def send(**request: Any) -> Any:
            self.before(name, request)
            self.sent.append((name, request))
            return self.after(name, request, method(**request))

        return send

    def list_calls(self, name: str) -> list[dict[str, Any]]:
        return [request for sent_name, request in self.sent if sent_name == name]


def assert_within_limits(spy: Spy) -> None:
    """Check that every request kept AWS's limits, which moto's server does not enforce, and read consistently."""
    for request in spy.list_calls("transact_write_items"):
        actions = request["TransactItems"]
        items = [action.get("Put", {}).get("Item", {}) for action in actions]
        assert len(actions) <= 100
        assert sum(map(measure, items)) <= limits.TRANSACTION_BYTES
        assert all(measure(item) <= limits.ITEM_BYTES for item in items)
        keys = [(action.get("Put", {}).get("Item") or next(iter(action.values()))["Key"]) for action in actions]
        assert len({(key["p"]["S"], key["s"]["S"]) for key in keys}) == len(keys), "one action per item"
    for request in spy.list_calls("batch_write_item"):
        [writes] = request["RequestItems"].values()
        assert 1 <= len(writes) <= 25
    for request in spy.list_calls("batch_get_item"):
        [reads] = request["RequestItems"].values()
        assert 1 <= len(reads["Keys"]) <= 100
        assert reads["ConsistentRead"] is True
    assert all(request["ConsistentRead"] is True for request in spy.list_calls("query"))
