"""What it means to be a store of record: a suite that any store can be held to.

    class TestMyStore(RecordsContract):
        @pytest.fixture
        def records(self, tmp_path):
            store = MyRecords(tmp_path)
            yield store
            store.close()

        @pytest.fixture
        def reopen(self, records, tmp_path):
            def again():
                records.close()
                return MyRecords(tmp_path)
            return again

A store passes all of it or says in one strict expected failure what it cannot do and why.
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
    ClosingContract,
):
    """The whole contract. Supply `records`, an open and empty store, and `reopen` if it outlives its process."""

    @pytest.fixture
    def reopen(self, records: Records) -> Reopen:
        """Closes the store and opens the same one again. A store that lasts no longer than its process stays open."""
        return lambda: records
