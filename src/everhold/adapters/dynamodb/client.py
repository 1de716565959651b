"""One DynamoDB table through boto3: pages, batches and retries, AWS's limits, and what its errors mean."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from everhold.adapters.dynamodb.items import INDEXES, Item, Place, size_of
from everhold.errors import InvalidSettings, StoreBusy, StoreError, StoreUnavailable
from everhold.interrupts import uninterrupted
from everhold.retries import RetryPolicy, TryAgain, retry

T = TypeVar("T")

MOST_WRITTEN = 25
"""Items of a batch write."""
MOST_READ = 100
"""Keys of a batch read."""
MOST_TRANSACTED = 100
"""Items of a transaction."""
TRANSACTION_BYTES = 4 * 1024 * 1024
ITEM_BYTES = 400 * 1024
BATCH_BYTES = 16 * 1024 * 1024

_FIRST_PAUSE = 0.025
_LONGEST_PAUSE = 2.0
_THROTTLED = frozenset((
    "ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "LimitExceededException",
    "TransactionInProgressException", "InternalServerError", "ServiceUnavailable", "ThrottlingError",
    "ProvisionedThroughputExceeded", "TransactionConflict", "TransactionConflictException",
))  # fmt: skip
_OVERTAKEN = frozenset(("ConditionalCheckFailedException", "ConditionalCheckFailed"))
_SERVER_ERROR = 500
_REFUSED = frozenset((
    "UnrecognizedClientException", "AccessDeniedException", "InvalidSignatureException", "ExpiredTokenException",
))  # fmt: skip


@dataclass(frozen=True)
class DynamoOptions:
    """Which table, and how it is paid for and reached. `read_units` and `write_units` are for provisioned capacity."""

    region: str
    table: str
    endpoint: str | None = None
    capacity: Literal["on_demand", "provisioned"] = "on_demand"
    read_units: int = 5
    write_units: int = 5
    retries: int = 8
    seconds: float = 10.0
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


class Overtaken(Exception):
    """A condition did not hold: another commit came first. Never leaves this package."""


class Dynamo:
    """The table's requests. All reads are consistent. May be used by several threads."""

    def __init__(self, options: DynamoOptions) -> None:
        self.options = options
        self._policy = RetryPolicy(options.retries + 1, first_pause=_FIRST_PAUSE, longest_pause=_LONGEST_PAUSE)
        config = Config(
            region_name=options.region,
            connect_timeout=options.seconds,
            read_timeout=options.seconds,
            retries={"mode": "standard", "total_max_attempts": 3},
            max_pool_connections=32,
            parameter_validation=False,
            user_agent="everhold",  # building the default one takes a tenth of the time of a request
        )
        with self.translated():
            self._client = boto3.client("dynamodb", endpoint_url=options.endpoint, config=config, **options.credentials)

    # the table

    def has_table(self) -> bool:
        with self.translated():
            try:
                found = self._client.describe_table(TableName=self.options.table)
            except ClientError as error:
                if _code(error) != "ResourceNotFoundException":
                    raise
                return False
        return bool(found["Table"]["TableStatus"] == "ACTIVE")

    def create_table(self) -> None:
        """Makes the table, and waits until it can be used."""
        names = ("p", "s", *INDEXES)
        wanted: dict[str, Any] = {
            "TableName": self.options.table,
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in names],
            "KeySchema": _schema("s"),
            "LocalSecondaryIndexes": [
                {"IndexName": name, "KeySchema": _schema(name), "Projection": {"ProjectionType": "ALL"}}
                for name in INDEXES
            ],
            **self._capacity(),
        }
        with self.translated():
            try:
                self._client.create_table(**wanted)
            except ClientError as error:
                if _code(error) != "ResourceInUseException":
                    raise
            self._client.get_waiter("table_exists").wait(
                TableName=self.options.table, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
            )

    def _capacity(self) -> dict[str, Any]:
        if self.options.capacity == "on_demand":
            return {"BillingMode": "PAY_PER_REQUEST"}
        units = {"ReadCapacityUnits": self.options.read_units, "WriteCapacityUnits": self.options.write_units}
        return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}

    # reading

    def get(self, place: Place) -> Item | None:
        answer = self._ask(self._client.get_item, TableName=self.options.table, Key=place.key, ConsistentRead=True)
        found: Item | None = answer.get("Item")
        return found

    def get_many(self, places: Sequence[Place]) -> Iterator[Item]:
        """The items that are there, in no particular order."""
        for start in range(0, len(places), MOST_READ):
            keys = [place.key for place in dict.fromkeys(places[start : start + MOST_READ])]
            yield from self._get_batch(keys)

    def _get_batch(self, keys: list[Item]) -> list[Item]:
        """Return the items with these keys. DynamoDB may leave some keys for the next request."""
        table = self.options.table
        items: list[Item] = []

        def read(_: int) -> list[Item]:
            nonlocal keys
            request = {table: {"Keys": keys, "ConsistentRead": True}}
            answer = self._ask(self._client.batch_get_item, RequestItems=request)
            items.extend(answer["Responses"].get(table, ()))
            keys = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if keys:
                raise TryAgain(f"{len(keys)} keys were not processed")
            return items

        return retry("read a batch of items", read, self._policy, give_up=lambda _: self._busy())

    def query(
        self,
        partition: str,
        *,
        index: str | None = None,
        prefix: str = "",
        between: tuple[str, str] | None = None,
    ) -> Iterator[Item]:
        """The items of a partition in the order of their sort key: all, those that begin so, or those of a range."""
        name = index or "s"
        values: Item = {":p": {"S": partition}}
        condition = "#p = :p"
        names = {"#p": "p"}
        if between or prefix:
            names["#s"] = name
        if between:
            condition += " AND #s BETWEEN :low AND :high"
            values |= {":low": {"S": between[0]}, ":high": {"S": between[1]}}
        elif prefix:
            condition += " AND begins_with(#s, :s)"
            values[":s"] = {"S": prefix}
        request: dict[str, Any] = {
            "TableName": self.options.table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ConsistentRead": True,
            **({"IndexName": index} if index else {}),
        }
        while True:
            answer = self._ask(self._client.query, **request)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    # writing

    def write(self, puts: Sequence[Item], deletes: Sequence[Place]) -> None:
        """Writes items one by one, in batches: nothing is promised until all is written."""
        wanted = [{"PutRequest": {"Item": item}} for item in puts]
        wanted += [{"DeleteRequest": {"Key": place.key}} for place in deletes]
        for batch in fitting(((one, _size_written(one)) for one in wanted), MOST_WRITTEN, BATCH_BYTES):
            self._write_batch(batch)

    def _write_batch(self, requests: list[Item]) -> None:
        table = self.options.table

        def write(_: int) -> None:
            nonlocal requests
            answer = self._ask(self._client.batch_write_item, RequestItems={table: requests})
            requests = answer.get("UnprocessedItems", {}).get(table, [])
            if requests:
                raise TryAgain(f"{len(requests)} items were not processed")

        retry("write a batch of items", write, self._policy, give_up=lambda _: self._busy())

    def transact(self, actions: Sequence[Mapping[str, Any]], token: str) -> None:
        """Does all of it or nothing. Overtaken, if a condition does not hold."""
        sizes = [size_of(action["Put"]["Item"]) for action in actions if "Put" in action]
        assert len(actions) <= MOST_TRANSACTED, len(actions)
        assert max(sizes, default=0) <= ITEM_BYTES, max(sizes)
        assert sum(sizes) <= TRANSACTION_BYTES, sum(sizes)
        table = self.options.table
        named = [{kind: {"TableName": table, **what} for kind, what in action.items()} for action in actions]
        self._ask(self._client.transact_write_items, TransactItems=named, ClientRequestToken=token)

    def close(self) -> None:
        self._client.close()

    # failing

    def _ask(self, request: Callable[..., Any], **what: Any) -> Any:
        """Return the answer to one request, which is sent again while DynamoDB throttles it."""

        def send(_: int) -> Any:
            with uninterrupted, self.translated():  # an interrupt could leave the driver's own pool locked
                return self._whole(request(**what))

        return retry("send a request to DynamoDB", send, self._policy, on=StoreBusy)

    def _whole(self, answer: Any) -> Any:
        """An answer, unless it was cut short: one that ends within its headers looks like one that says nothing."""
        if "content-length" not in answer["ResponseMetadata"]["HTTPHeaders"]:
            raise StoreUnavailable(f"an answer about {self.options.table} was cut short", remedy="try again")
        return answer

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns the driver's errors into ours."""
        try:
            yield
        except ClientError as error:
            raise self._refusal(error) from error
        except BotoCoreError as error:
            where = self.options.endpoint or self.options.region
            raise StoreUnavailable(
                f"DynamoDB at {where} cannot be reached ({error})", remedy="check region, network and credentials"
            ) from error

    def _busy(self) -> StoreBusy:
        return StoreBusy(f"{self.options.table} is asked for more than it may give", remedy="try again later")

    def _refusal(self, error: ClientError) -> Exception:
        code = _code(error)
        reasons = {code, *(reason.get("Code") for reason in error.response.get("CancellationReasons", ()))}
        if reasons & _OVERTAKEN:
            return Overtaken()
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if reasons & _THROTTLED or status >= _SERVER_ERROR:
            return self._busy()
        if code in _REFUSED:
            return InvalidSettings(
                f"AWS refused the credentials ({code})", remedy="check them and the role's permissions"
            )
        if code == "ResourceNotFoundException":
            return StoreUnavailable(f"there is no table {self.options.table} any more", remedy="open the store again")
        return StoreError(
            f"DynamoDB refused on {self.options.table}: {code}: {error}", remedy="check the table and its settings"
        )


def _schema(sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def fitting(sized: Iterable[tuple[T, int]], most: int, most_bytes: int) -> Iterator[list[T]]:
    """What has sizes, in its order, in lists of so many and so many bytes at most."""
    part: list[T] = []
    held = 0
    for one, size in sized:
        if part and (len(part) == most or held + size > most_bytes):
            yield part
            part, held = [], 0
        part.append(one)
        held += size
    if part:
        yield part


def _size_written(request: Mapping[str, Any]) -> int:
    size = size_of(request["PutRequest"]["Item"]) if "PutRequest" in request else 0
    assert size <= ITEM_BYTES, size
    return size
