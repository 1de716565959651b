"""The contract of a store of record: closing it, even while other threads use it."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from everhold.errors import StoreUnavailable
from everhold.model import Memory, Organization
from everhold.ports.records import Records
from everhold.schema.operations import Put
from everhold.testing.records_rows import make_row

WAIT_SECONDS = 60
ROUNDS_BEFORE_CLOSING = 3

VERBS: dict[str, Callable[[Records, str], object]] = {
    "get": lambda records, name: records.get(Memory, "org", ["m", "n"]),
    "scan": lambda records, name: records.scan(Memory, "org", limit=50),
    "columns": lambda records, name: list(records.columns(Memory, "org", ("id", "text"))),
    "count": lambda records, name: records.count(Memory, "org"),
    "feed": lambda records, name: records.feed(0),
    "head": lambda records, name: records.head(),
    "commit": lambda records, name: records.commit([Put(make_row(Memory, "org", name))]),
}


class ClosingContract:
    """Calls after `close`, and calls in other threads during it, raise StoreUnavailable and no other error."""

    def test_closing_twice_is_harmless_and_every_verb_is_refused_afterwards(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org"))])
        half_read = records.columns(Organization, None, ("id",))
        next(half_read)
        records.close()
        records.close()
        with suppress(StoreUnavailable):  # rows that were read ahead may still come
            list(half_read)
        for name, verb in VERBS.items():
            with pytest.raises(StoreUnavailable):
                verb(records, name)
        for method in (records.maintain, records.find_problems):
            with pytest.raises(StoreUnavailable):
                method()

    def test_closing_while_other_threads_read_and_write(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org"))])
        records.commit([Put(make_row(Memory, "org", f"m{number}")) for number in range(20)])
        busy = threading.Semaphore(0)
        stop = threading.Event()

        def use(name: str, verb: Callable[[Records, str], object]) -> None:
            for number in itertools.count():
                if stop.is_set():
                    return
                if number == ROUNDS_BEFORE_CLOSING:
                    busy.release()
                verb(records, f"{name}-{number}")

        with ThreadPoolExecutor(len(VERBS)) as pool:
            futures = [pool.submit(use, name, verb) for name, verb in VERBS.items()]
            for future in futures:
                future.add_done_callback(lambda _: busy.release())
            for _ in futures:
                assert busy.acquire(timeout=WAIT_SECONDS)
            try:
                records.close()
                assert {type(future.exception(WAIT_SECONDS)) for future in futures} == {StoreUnavailable}
            finally:
                stop.set()
