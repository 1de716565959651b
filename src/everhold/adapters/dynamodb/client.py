"""Access to one DynamoDB table through boto3: pages, batches, retries, AWS's limits and its errors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from everhold.adapters.dynamodb.items import INDEXES, Item, ItemKey, measure
from everhold.errors import InvalidSettings, StoreBusy, StoreError, StoreUnavailable
from everhold.interrupts import uninterrupted
from everhold.retries import RetryPolicy, TryAgain, retry

T = TypeVar("T")

# The maximum number of items in a batch write.
MAX_BATCH_WRITES = 25
# The maximum number of keys in a batch read.
MAX_BATCH_READS = 100
# The maximum number of items in a transaction.
MAX_TRANSACTION_ITEMS = 100
TRANSACTION_BYTES = 4 * 1024 * 1024
ITEM_BYTES = 400 * 1024
BATCH_BYTES = 16 * 1024 * 1024

_FIRST_PAUSE = 0.025
_MAX_PAUSE = 2.0
_RETRYABLE_CODES = frozenset((
    "ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "LimitExceededException",
    "TransactionInProgressException", "InternalServerError", "ServiceUnavailable", "ThrottlingError",
    "ProvisionedThroughputExceeded", "TransactionConflict", "TransactionConflictException",
))  # fmt: skip
_CONFLICT_CODES = frozenset(("ConditionalCheckFailedException", "ConditionalCheckFailed"))
_SERVER_ERROR = 500  # HTTP status codes from this one on are failures of the server, and worth a retry
_CREDENTIAL_CODES = frozenset((
    "UnrecognizedClientException", "AccessDeniedException", "InvalidSignatureException", "ExpiredTokenException",
))  # fmt: skip


@dataclass(frozen=True)
class DynamoOptions:
    """The table and how to reach it.

    `read_units` and `write_units` are for provisioned capacity. A commit waits up to `busy_seconds` for other commits;
    after `shared_tries` it reserves the table, or short commits could always overtake a long one. A commit of several
    transactions counts as abandoned after `lease_seconds`, unless it extends its lease.
    """

    region: str
    table: str
    endpoint: str | None = None
    capacity: Literal["on_demand", "provisioned"] = "on_demand"
    read_units: int = 5
    write_units: int = 5
    retries: int = 8
    seconds: float = 10.0
    busy_seconds: float = 60.0
    shared_tries: int = 3
    lease_seconds: float = 30.0
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


class Overtaken(Exception):
    """A condition failed because another commit came first. The store never raises this to its callers."""


class Dynamo:
    """Sends requests for the table. All reads are strongly consistent. Thread-safe.

    `client` takes the place of the boto3 client that is made from the options.
    """

    def __init__(self, options: DynamoOptions, client: Any = None) -> None:
        self.options = options
        self._policy = RetryPolicy(options.retries + 1, first_pause=_FIRST_PAUSE, longest_pause=_MAX_PAUSE)
        with self.translate_errors():
            self._client = client if client is not None else make_client(options)

    # the table

    def has_table(self) -> bool:
        with self.translate_errors():
            try:
                description = self._client.describe_table(TableName=self.options.table)
            except ClientError as error:
                if _get_code(error) != "ResourceNotFoundException":
                    raise
                return False
        return bool(description["Table"]["TableStatus"] == "ACTIVE")

    def create_table(self) -> None:
        """Create the table and wait until it is active."""
        names = ("p", "s", *INDEXES)
        definition: dict[str, Any] = {
            "TableName": self.options.table,
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in names],
            "KeySchema": _make_key_schema("s"),
            "LocalSecondaryIndexes": [
                {"IndexName": name, "KeySchema": _make_key_schema(name), "Projection": {"ProjectionType": "ALL"}}
                for name in INDEXES
            ],
            **self._describe_capacity(),
        }
        with self.translate_errors():
            try:
                self._client.create_table(**definition)
            except ClientError as error:
                if _get_code(error) != "ResourceInUseException":
                    raise
            self._client.get_waiter("table_exists").wait(
                TableName=self.options.table, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
            )

    def _describe_capacity(self) -> dict[str, Any]:
        if self.options.capacity == "on_demand":
            return {"BillingMode": "PAY_PER_REQUEST"}
        units = {"ReadCapacityUnits": self.options.read_units, "WriteCapacityUnits": self.options.write_units}
        return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}

    # reading

    def get(self, item_key: ItemKey) -> Item | None:
        answer = self._send(self._client.get_item, TableName=self.options.table, Key=item_key.key, ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    def get_many(self, item_keys: Sequence[ItemKey]) -> Iterator[Item]:
        """Yield the items with these keys that exist, in no particular order."""
        for start in range(0, len(item_keys), MAX_BATCH_READS):
            keys = [item_key.key for item_key in dict.fromkeys(item_keys[start : start + MAX_BATCH_READS])]
            yield from self._get_batch(keys)

    def _get_batch(self, keys: list[Item]) -> list[Item]:
        """Return the items with these keys. DynamoDB may leave some keys for the next request."""
        table = self.options.table
        items: list[Item] = []

        def read(_: int) -> list[Item]:
            nonlocal keys
            request = {table: {"Keys": keys, "ConsistentRead": True}}
            answer = self._send(self._client.batch_get_item, RequestItems=request)
            items.extend(answer["Responses"].get(table, ()))
            keys = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if keys:
                raise TryAgain(f"{len(keys)} keys were not processed")
            return items

        return retry("read a batch of items", read, self._policy, give_up=lambda _: self._make_busy_error())

    def query(
        self,
        partition: str,
        *,
        index: str | None = None,
        prefix: str = "",
        between: tuple[str, str] | None = None,
    ) -> Iterator[Item]:
        """Yield the items of a partition by sort key: all of them, those with a prefix, or those of a range."""
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
            answer = self._send(self._client.query, **request)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    # writing

    def write(self, puts: Sequence[Item], deletes: Sequence[ItemKey]) -> None:
        """Write and delete items in batches. This is not atomic: a failure may leave a part of them written."""
        requests = [{"PutRequest": {"Item": item}} for item in puts]
        requests += [{"DeleteRequest": {"Key": item_key.key}} for item_key in deletes]
        for batch in split_batches(
            ((request, _measure_request(request)) for request in requests), MAX_BATCH_WRITES, BATCH_BYTES
        ):
            self._write_batch(batch)

    def _write_batch(self, requests: list[Item]) -> None:
        table = self.options.table

        def write(_: int) -> None:
            nonlocal requests
            answer = self._send(self._client.batch_write_item, RequestItems={table: requests})
            requests = answer.get("UnprocessedItems", {}).get(table, [])
            if requests:
                raise TryAgain(f"{len(requests)} items were not processed")

        retry("write a batch of items", write, self._policy, give_up=lambda _: self._make_busy_error())

    def transact(self, actions: Sequence[Mapping[str, Any]], token: str) -> None:
        """Run all actions in one transaction. Raise Overtaken if a condition fails."""
        sizes = [measure(action["Put"]["Item"]) for action in actions if "Put" in action]
        assert len(actions) <= MAX_TRANSACTION_ITEMS, len(actions)
        assert max(sizes, default=0) <= ITEM_BYTES, max(sizes)
        assert sum(sizes) <= TRANSACTION_BYTES, sum(sizes)
        table = self.options.table
        items = [{kind: {"TableName": table, **body} for kind, body in action.items()} for action in actions]
        self._send(self._client.transact_write_items, TransactItems=items, ClientRequestToken=token)

    def close(self) -> None:
        self._client.close()

    # errors

    def _send(self, request: Callable[..., Any], **arguments: Any) -> Any:
        """Return the answer to a request, which is sent again while DynamoDB throttles it."""

        def send(_: int) -> Any:
            with uninterrupted, self.translate_errors():  # an interrupt could leave the driver's own pool locked
                return self._require_complete(request(**arguments))

        return retry("send a request to DynamoDB", send, self._policy, on=StoreBusy)

    def _require_complete(self, answer: Any) -> Any:
        """Return the answer, or raise StoreUnavailable if it was cut short."""
        # boto3 returns an answer that ends within its headers as an empty one, after its last attempt even if the
        # checksum is wrong. A complete answer without content is "{}".
        length = int(answer["ResponseMetadata"]["HTTPHeaders"].get("content-length", "-1"))
        if length < 0 or (length > len("{}") and len(answer) == 1):
            raise StoreUnavailable(f"an answer about {self.options.table} was cut short", remedy="try again")
        return answer

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise the driver's errors as errors of the engine."""
        try:
            yield
        except ClientError as error:
            raise self._translate(error) from error
        except BotoCoreError as error:
            location = self.options.endpoint or self.options.region
            raise StoreUnavailable(
                f"DynamoDB at {location} cannot be reached ({error})", remedy="check region, network and credentials"
            ) from error

    def _make_busy_error(self) -> StoreBusy:
        return StoreBusy(f"table {self.options.table!r} is throttled", remedy="retry later, or raise its capacity")

    def _translate(self, error: ClientError) -> Exception:
        """Return the error of Everhold for an error of the AWS client."""
        code = _get_code(error)
        reasons = {code, *(reason.get("Code") for reason in error.response.get("CancellationReasons", ()))}
        if reasons & _CONFLICT_CODES:
            return Overtaken()
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if reasons & _RETRYABLE_CODES or status >= _SERVER_ERROR:
            return self._make_busy_error()
        if code in _CREDENTIAL_CODES:
            return InvalidSettings(
                f"AWS rejected the credentials ({code})", remedy="check them and the role's permissions"
            )
        if code == "ResourceNotFoundException":
            return StoreUnavailable(f"table {self.options.table!r} no longer exists", remedy="open the store again")
        return StoreError(
            f"DynamoDB failed on table {self.options.table!r}: {code}: {error}",
            remedy="check the table and its settings",
        )


def make_client(options: DynamoOptions) -> Any:
    """Return a boto3 client for the options' region, endpoint and credentials."""
    config = Config(
        region_name=options.region,
        connect_timeout=options.seconds,
        read_timeout=options.seconds,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=32,
        parameter_validation=False,
        user_agent="everhold",  # building the default one takes a tenth of the time of a request
    )
    return boto3.client("dynamodb", endpoint_url=options.endpoint, config=config, **options.credentials)


def _make_key_schema(sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def _get_code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def split_batches(sized_values: Iterable[tuple[T, int]], max_values: int, max_bytes: int) -> Iterator[list[T]]:
    """Yield the values in order, in batches of at most `max_values` values and `max_bytes` bytes."""
    batch: list[T] = []
    batch_bytes = 0
    for value, size in sized_values:
        if batch and (len(batch) == max_values or batch_bytes + size > max_bytes):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(value)
        batch_bytes += size
    if batch:
        yield batch


def _measure_request(request: Mapping[str, Any]) -> int:
    size = measure(request["PutRequest"]["Item"]) if "PutRequest" in request else 0
    assert size <= ITEM_BYTES, size
    return size
