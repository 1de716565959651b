"""The contract of a store of record: a test suite for any store.

    class TestMyStore(RecordsContract):
        @pytest.fixture
        def records(self, tmp_path):
            store = MyRecords(tmp_path)
            yield store
            store.close()

        @pytest.fixture
        def reopen(self, records, tmp_path):
            def close_and_open():
                records.close()
                return MyRecords(tmp_path)
            return close_and_open

A store passes all of it, or marks a test as a strict expected failure with the reason.
"""

import pytest

from everhold.ports.records import Records
from everhold.testing.records_closing import ClosingContract
from everhold.testing.records_concurrency import ConcurrencyContract
from everhold.testing.records_deletion import DeletionContract
from everhold.testing.records_following import FollowingContract, Reopen
from everhold.testing.records_integrity import IntegrityContract
from everhold.testing.records_reading import ReadingContract
from everhold.testing.records_rules import RowRulesContract
from everhold.testing.records_snapshot import SnapshotContract
from everhold.testing.records_values import ValuesContract
from everhold.testing.records_writing import WritingContract


class RecordsContract(
    ValuesContract,
    ReadingContract,
    WritingContract,
    ConcurrencyContract,
    IntegrityContract,
    RowRulesContract,
    DeletionContract,
    FollowingContract,
    SnapshotContract,
    ClosingContract,
):
    """The whole contract. Supply `records`, an open and empty store, and `reopen` if it outlives its process."""

    @pytest.fixture
    def reopen(self, records: Records) -> Reopen:
        """Return a function that closes and reopens the store. A store in memory stays open."""
        return lambda: records
