"""A store that encrypts every field that can be encrypted keeps the same contract as the store below it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everhold.adapters.encryption import MasterKey, MasterKeys, StoredDataKeys, make_secret
from everhold.adapters.in_memory import InMemoryRecords
from everhold.encryption.fields import EncryptedFields, choose_fields, list_encryptable_fields
from everhold.encryption.records import EncryptingRecords
from everhold.encryption.row_cipher import RowCipher
from everhold.errors import InvalidInput
from everhold.ports.records import Records
from everhold.testing.records_contract import RecordsContract
from tests.contract.stores import STORES, Store


class TestEncryptingRecords(RecordsContract):
    rounds = 2

    @pytest.fixture(params=["in_memory", "sqlite"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
        store = STORES[request.param](request, tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def encrypt(self) -> Callable[[Records], Records]:
        # The keys are in a store of their own: the tests compare all rows of a store.
        keys = StoredDataKeys(InMemoryRecords(), MasterKeys(MasterKey(make_secret())))
        chosen = choose_fields(list_encryptable_fields())
        # Rules over several fields are checked before the first operation, and the names of episodes are left out.
        others = {"revisions", "changes", "episodes"}
        written = {table: columns for table, columns in chosen.written.items() if table not in others}
        fields = EncryptedFields(written, {**written, "memories": chosen.read["memories"]})
        return lambda records: EncryptingRecords(records, RowCipher(keys, fields))

    @pytest.fixture(autouse=True)
    def expect_gaps(self, request: pytest.FixtureRequest) -> None:
        """Rows cannot be ordered by what is encrypted, and a snapshot has them as they are stored."""
        if re.search(r"test_rows_are_ordered_by_value_and_then_by_key\[\w+-\w+-text\]", request.node.name):
            request.applymarker(pytest.mark.xfail(strict=True, raises=InvalidInput))
        if request.node.name == "test_a_snapshot_has_every_row_of_every_table[in_memory]":
            request.applymarker(pytest.mark.xfail(strict=True, raises=AssertionError))

    @pytest.fixture
    def records(self, store: Store, encrypt: Callable[[Records], Records]) -> Records:
        return encrypt(store.open())

    @pytest.fixture
    def reopen(self, store: Store, encrypt: Callable[[Records], Records]) -> Callable[[], Records]:
        return lambda: encrypt(store.reopen())
