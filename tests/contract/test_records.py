"""Every store of record keeps the same contract."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everhold.ports.records import Records
from everhold.testing.records_contract import RecordsContract
from tests.contract.stores import STORES, RecordsStore
from tests.exhaustive import choose_size


class TestRecords(RecordsContract):
    rounds = choose_size(4, RecordsContract.rounds)

    @pytest.fixture(params=STORES)
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordsStore]:
        store = STORES[request.param](request, tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def records(self, store: RecordsStore) -> Records:
        return store.open()

    @pytest.fixture
    def reopen(self, store: RecordsStore) -> Callable[[], Records]:
        return store.reopen
