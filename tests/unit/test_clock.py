"""Times to the microsecond, and ids that sort in the order of their creation."""

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold import clock

DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def decode_id(made_id: str) -> int:
    value = 0
    for digit in made_id.partition("_")[2]:
        value = value * 32 + DIGITS.index(digit)
    return value


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds_are_exact(moment: datetime) -> None:
    assert clock.from_micros(clock.micros(moment)) == moment


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.timezones()))  # noqa: DTZ001
def test_the_same_moment_in_two_zones_has_one_number(moment: datetime) -> None:
    assert clock.from_micros(clock.micros(moment)) == moment.astimezone(UTC)


def test_times_before_1970_have_negative_numbers() -> None:
    assert clock.micros(datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)) == -1
    assert clock.micros(datetime(1970, 1, 1, 7, tzinfo=timezone(timedelta(hours=7)))) == 0


def test_now_is_in_utc() -> None:
    assert clock.now().tzinfo is UTC
    assert abs(clock.now().timestamp() - time.time()) < 5


def test_ids_have_the_layout_of_uuid7() -> None:
    for _ in range(200):
        before = time.time_ns() // 1_000_000
        made_id = clock.make_id("mem")
        prefix, _, digits = made_id.partition("_")
        assert (prefix, len(digits)) == ("mem", 26)
        value = decode_id(made_id)
        assert value < 1 << 128
        assert value >> 76 & 0xF == 7, "the version"
        assert value >> 62 & 0b11 == 0b10, "the variant"
        assert abs((value >> 80) - before) < 5000, "milliseconds since 1970"


def test_ids_sort_in_the_order_of_their_creation() -> None:
    ids = [clock.make_id("mem") for _ in range(5000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_ids_increase_even_if_the_clock_stops_or_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [clock.make_id("mem")]
    start = time.time_ns()
    for step in (0, 0, 0, -(10**9), -(10**12), 5 * 10**6, 0, -1):
        monkeypatch.setattr(time, "time_ns", lambda step=step: start + step)
        ids += [clock.make_id("mem") for _ in range(300)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {decode_id(made_id) >> 76 & 0xF for made_id in ids} == {7}


def test_ids_are_unique_across_threads() -> None:
    ids_by_thread: list[list[str]] = [[] for _ in range(8)]

    def work(ids_of_thread: list[str]) -> None:
        ids_of_thread += [clock.make_id("x") for _ in range(3000)]

    threads = [threading.Thread(target=work, args=(ids_of_thread,)) for ids_of_thread in ids_by_thread]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids_of_thread == sorted(ids_of_thread) for ids_of_thread in ids_by_thread)
    assert len({made_id for ids_of_thread in ids_by_thread for made_id in ids_of_thread}) == 8 * 3000


def test_a_forked_process_makes_different_ids() -> None:
    script = """
import os, sys
from everhold import clock
clock.make_id("x")
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, "\\n".join(clock.make_id("x") for _ in range(50)).encode())
    os._exit(0)
os.wait()
child = os.read(read, 100_000).decode().split("\\n")
mine = [clock.make_id("x") for _ in range(50)]
assert len(child) == 50
assert not {made_id[-14:] for made_id in child} & {made_id[-14:] for made_id in mine}
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300, env=_make_environment())


def _make_environment() -> dict[str, str]:
    import os
    from pathlib import Path

    return {**os.environ, "PYTHONPATH": str(Path(clock.__file__).parents[1])}
