"""A store on DynamoDB in a new table for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import clock
from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
from everhold.adapters.dynamodb.client import Dynamo
from everhold.adapters.files import FileBlobs
from everhold.model import Organization
from everhold.schema.operations import Put
from tests.dynamo_table import NUMBERS, ORGANIZATION, Spy
from tests.servers.dynamodb import CREDENTIALS, DynamoServer


@pytest.fixture
def options(dynamodb_server: DynamoServer, request: pytest.FixtureRequest) -> DynamoOptions:
    """The options of a new table, with the options that `use_options` adds."""
    return DynamoOptions(
        "eu-north-1",
        f"unit{next(NUMBERS)}",
        endpoint=dynamodb_server.url,
        seconds=60,
        credentials=CREDENTIALS,
        **getattr(request, "param", {}),
    )


@pytest.fixture
def spy(options: DynamoOptions) -> Spy:
    return Spy(options)


@pytest.fixture
def dynamo(options: DynamoOptions) -> Iterator[Dynamo]:
    """Read the items of the table without the store."""
    dynamo = Dynamo(options)
    yield dynamo
    dynamo.close()


@pytest.fixture
def records(options: DynamoOptions, spy: Spy, tmp_path: Path) -> Iterator[DynamoRecords]:
    """A store with one organization, which sends its requests through the spy."""
    records = DynamoRecords(options, FileBlobs(str(tmp_path / "blobs")), spy)
    now = clock.now()
    records.commit([Put(Organization(id=ORGANIZATION, name="Acme", created_at=now, updated_at=now))])
    spy.sent.clear()
    yield records
    records.close()
