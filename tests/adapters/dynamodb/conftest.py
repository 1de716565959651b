"""A store in a table of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import clock
from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
from everhold.adapters.files import FileBlobs
from everhold.model import Organization
from everhold.schema.operations import Put
from tests.dynamo_table import NUMBERS, ORGANIZATION, Spy
from tests.servers.dynamodb import CREDENTIALS, DynamoServer


@pytest.fixture
def options(dynamodb_server: DynamoServer) -> DynamoOptions:
    table = f"unit{next(NUMBERS)}"
    return DynamoOptions("eu-north-1", table, endpoint=dynamodb_server.url, seconds=60, credentials=CREDENTIALS)


@pytest.fixture
def records(options: DynamoOptions, tmp_path: Path) -> Iterator[DynamoRecords]:
    records = DynamoRecords(options, FileBlobs(str(tmp_path / "blobs")))
    now = clock.now()
    records.commit([Put(Organization(id=ORGANIZATION, name="Acme", created_at=now, updated_at=now))])
    yield records
    records.close()


@pytest.fixture
def spy(records: DynamoRecords, monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(records, monkeypatch)
