"""The only place that reads the time and makes ids.

Ids are typed and time-ordered: a prefix, an underscore, and a UUIDv7 as 26 lower-case base-32 digits whose text
order is their numeric order (`mem_01jcz3…`).
"""

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _DIGITS for b in _DIGITS]
_SHIFTS = tuple(range(120, -1, -10))

_RANDOM_BYTES = 10
_RANDOM_AT_ONCE = 64
_LOW_BITS = ((1 << 76) - 1) & ~(3 << 62)

_lock = threading.Lock()
_last = 0
_random = b""


def now() -> datetime:
    """The present, in UTC, to the microsecond."""
    return datetime.now(UTC)


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@lru_cache(maxsize=4096)
def from_micros(value: int) -> datetime:
    """The moment so many microseconds after 1970. Rows written together share their times."""
    return EPOCH + timedelta(microseconds=value)


def make_id(prefix: str, at: datetime | None = None) -> str:
    """Return an id that sorts after every id made before it in this process.

    With `at`, return one that sorts by that time instead, for a row that is imported with the time it was made.
    """
    if at is None:
        return f"{prefix}_{_base32(_uuid7())}"
    return f"{prefix}_{_base32(max(micros(at), 0) // 1000 << 80 | _draw_low_bits())}"


def least_id(prefix: str, moment: datetime) -> str:
    """Not greater than any id made at that moment or later, and greater than all made before."""
    return f"{prefix}_{_base32(micros(moment) // 1000 << 80)}"


def _uuid7() -> int:
    """48 bits of milliseconds, then 80 bits drawn at random, or one more than the last when time stands still."""
    global _last, _random  # noqa: PLW0603 — the process-wide order of ids is the point
    milliseconds = time.time_ns() // 1_000_000
    with _lock:
        if len(_random) < _RANDOM_BYTES:
            _random = os.urandom(_RANDOM_AT_ONCE * _RANDOM_BYTES)
        drawn, _random = int.from_bytes(_random[:_RANDOM_BYTES]), _random[_RANDOM_BYTES:]
        fresh = milliseconds << 80 | 7 << 76 | (drawn & _LOW_BITS) | 2 << 62
        _last = fresh if fresh >> 80 > _last >> 80 else _last + (drawn & 0xFFFF_FFFF) + 1
        return _last


def _draw_low_bits() -> int:
    return 7 << 76 | (int.from_bytes(os.urandom(_RANDOM_BYTES)) & _LOW_BITS) | 2 << 62


def _base32(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def _forget_random() -> None:
    """A forked process must not draw what its parent draws."""
    global _random  # noqa: PLW0603
    _random = b""


os.register_at_fork(after_in_child=_forget_random)
