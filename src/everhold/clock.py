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
_TIME_DIGITS = 10  # the other 16 digits are the 80 bits after the time

_RANDOM_BYTES = 10
_RANDOM_AT_ONCE = 64  # one system call yields the random bits of so many ids
_LOW_BITS = ((1 << 76) - 1) & ~(3 << 62)  # the 80 low bits without the four of the version and the two of the variant

_lock = threading.Lock()
_last = 0
_random = b""


def now() -> datetime:
    """Return the current time in UTC, to the microsecond."""
    return datetime.now(UTC)


def micros(moment: datetime) -> int:
    """Return the exact number of microseconds since 1970."""
    # Integers only: `timestamp()` is a float, which loses microseconds.
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@lru_cache(maxsize=4096)
def from_micros(value: int) -> datetime:
    """Return the time so many microseconds after 1970. It is cached, because rows written together share times."""
    return EPOCH + timedelta(microseconds=value)


def make_later_time(moment: datetime) -> datetime:
    """Return the present time, or the first time after `moment` if the clock is behind that."""
    # A clock can be set back. The periods in which two revisions were known must not overlap even then.
    present = now()
    return present if present > moment else from_micros(micros(moment) + 1)


def make_id(prefix: str, at: datetime | None = None) -> str:
    """Return an id that sorts after every id made before it in this process.

    With `at`, return an id that sorts by that time, for a row that is imported with its time of creation.
    """
    if at is None:
        return f"{prefix}_{_encode_base32(_make_uuid7())}"
    return f"{prefix}_{_encode_base32(max(micros(at), 0) // 1000 << 80 | _draw_low_bits())}"


def make_least_id(prefix: str, moment: datetime) -> str:
    """Return a text that sorts before every id made at that moment or later, and after all earlier ids."""
    return f"{prefix}_{_encode_base32(micros(moment) // 1000 << 80)}"


def make_id_prefix(prefix: str, moment: datetime) -> str:
    """Return the common beginning of all ids that are made in the millisecond of `moment`."""
    return f"{prefix}_{_encode_base32(max(micros(moment), 0) // 1000 << 80)[:_TIME_DIGITS]}"


def _make_uuid7() -> int:
    """Return 48 bits of milliseconds and 80 further bits: random, or above the last id's in the same millisecond."""
    global _last, _random  # noqa: PLW0603 — the process-wide order of ids is the point
    milliseconds = time.time_ns() // 1_000_000
    with _lock:
        if len(_random) < _RANDOM_BYTES:
            _random = os.urandom(_RANDOM_AT_ONCE * _RANDOM_BYTES)
        drawn, _random = int.from_bytes(_random[:_RANDOM_BYTES]), _random[_RANDOM_BYTES:]
        fresh = milliseconds << 80 | 7 << 76 | (drawn & _LOW_BITS) | 2 << 62
        # In the same millisecond, or after the clock was set back, ids continue from the last one to stay in order.
        # The step is random, so that an id does not reveal the next one.
        _last = fresh if fresh >> 80 > _last >> 80 else _last + (drawn & 0xFFFF_FFFF) + 1
        return _last


def _draw_low_bits() -> int:
    return 7 << 76 | (int.from_bytes(os.urandom(_RANDOM_BYTES)) & _LOW_BITS) | 2 << 62


def _encode_base32(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def _forget_random() -> None:
    """Discard the random bytes after a fork, because the parent would use the same ones."""
    global _random  # noqa: PLW0603
    _random = b""


os.register_at_fork(after_in_child=_forget_random)
