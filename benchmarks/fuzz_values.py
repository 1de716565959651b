"""Hostile and ordinary values for the arguments of the public verbs."""

import enum
import io
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

TEXTS: Sequence[str] = (
    "",
    " ",
    "\n\t\r",
    "\x00",
    "tea\x00time",
    "\ud800",
    "a\udfffb",
    "a" * 40_000,
    "word " * 8_000,
    "a-" * 20_000,
    "\u0301" * 60_000,
    "a" + "\u0315\u0300" * 30_000,
    "日本語" * 12_000,
    "ก" * 40_000,
    "가" * 30_000,
    "\ufdfa" * 10_000,
    "yesterday",
    "in two years",
    "999 years ago",
    "the day before yesterday and 999 weeks from now",
    "today " * 5_000,
    "between May and July " * 1_500,
    "from 31/12/2099 to 29 February",
    "will " * 6_000,
    "before the " + "x" * 30_000,
    "has a " + "x" * 30_000,
    "." * 40_000,
    "<" * 5_000,
    "((((" * 2_000,
    "\\" * 3_000,
    "%s %n {} {0.__class__}",
    "'; DROP TABLE memories; --",
    "\u202eabc\u202c",
    "👩‍👩‍👧‍👦" * 2_000,
    "𝔘𝔫𝔦",
    "ﬀ" * 500,
    "İ" * 500,
    "1" * 5_000,
    "-1",
    "1e400",
    "NaN",
    "null",
    "*",
    "../../etc/passwd",
    "/dev/null/x",
    "C:\\con",
    "a/b",
    "~",
    "-",
    "--",
    "x" * 255,
    "x" * 256,
    "x" * 1_000_001,
    "Alice",
    "what does she like?",
    "When did I move to Paris?",
    "kind of blue",
)

NUMBERS: Sequence[Any] = (
    0,
    1,
    2,
    -1,
    5,
    10,
    50,
    255,
    1000,
    1001,
    10_000,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    10**400,
    10**5000,
    -(10**5000),
    0.0,
    -0.0,
    0.5,
    1.0,
    1.5,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
    True,
    False,
    Decimal("1e999"),
    Fraction(1, 3),
    1j,
    "5",
    "0.5",
)


class Offsetless(tzinfo):
    """A time zone without an offset."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "nowhere"


TIMES: Sequence[Any] = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=23, minutes=59))),
    datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=23, minutes=59))),
    datetime(2024, 2, 29, tzinfo=UTC),
    datetime(1900, 1, 1, tzinfo=ZoneInfo("Asia/Bangkok")),
    datetime(2024, 5, 1),  # noqa: DTZ001
    datetime(2024, 5, 1, tzinfo=Offsetless()),
    date(2024, 5, 1),
    timedelta(days=1),
    datetime(2024, 3, 31, 2, 30, tzinfo=ZoneInfo("Europe/Paris")),
    "2024-05-01",
    1_714_521_600,
)


class CallerError(Exception):
    """Raised by the code of an argument; verbs must pass it on unchanged."""


class OddText(str):
    """Text whose methods raise an exception."""

    def __str__(self) -> str:
        raise CallerError

    __repr__ = __str__


class OddNumber(int):
    """A number whose methods raise an exception."""

    def __repr__(self) -> str:
        raise CallerError

    __str__ = __repr__


class OddMapping(Mapping[str, Any]):
    """A mapping that fails while it is read."""

    def __getitem__(self, key: str) -> Any:
        raise CallerError

    def __iter__(self) -> Iterator[str]:
        return iter(("a",))

    def __len__(self) -> int:
        return 1


class Unprintable:
    """An object that cannot be shown, iterated over, compared or counted."""

    def __repr__(self) -> str:
        raise CallerError

    __str__ = __repr__

    def __iter__(self) -> Iterator[Any]:
        raise CallerError

    def __len__(self) -> int:
        raise CallerError


class Colour(enum.StrEnum):
    """An enumeration whose members are text."""

    RED = "red"


def make_failing_iterator() -> Iterator[str]:
    yield "one"
    raise CallerError


def make_deep_list(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def make_deep_object(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def make_loop() -> dict[str, Any]:
    value: dict[str, Any] = {"b": [1, 2]}
    value["a"] = value
    value["c"] = [value, value]
    return value


def make_bomb() -> list[Any]:
    """Return a few lists that contain each other, so that they have ten thousand million values when unfolded."""
    value: list[Any] = ["x"]
    for _ in range(10):
        value = [value] * 10
    return value


NESTED: Sequence[Callable[[], Any]] = (
    dict,
    list,
    lambda: {"a": 1, "b": [None, True, "x"]},
    lambda: make_deep_object(10_000),
    lambda: make_deep_list(10_000),
    lambda: make_deep_object(60),
    lambda: {"a": 10**5000},
    lambda: {"a": float("nan")},
    lambda: {"\x00": 1},
    lambda: {"a": "\ud800"},
    lambda: {1: 2},
    lambda: {"a": b"bytes"},
    lambda: {"a": {1, 2}},
    lambda: {"a": object()},
    make_loop,
    make_bomb,
    lambda: {"a": make_bomb()},
    lambda: [1] * 200_000,
    lambda: {str(n): n for n in range(150_000)},
    lambda: {"a": "x" * 5_000_000},
    lambda: {"a": datetime(2024, 1, 1, tzinfo=UTC)},
    lambda: {"a": [Unprintable()]},
    lambda: {frozenset({frozenset()}): 1},
    lambda: {"a" * 50_000: 1},
    lambda: {"text": 5},
    OddMapping,
    lambda: {"kind": "fact"},
    lambda: {"metadata.a.b": 1},
    lambda: {"metadata." + "a." * 5_000: 1},
    lambda: {"importance": {">": 0.1}},
    lambda: {"importance": {"<": 10**400}},
    lambda: {"importance": {"~": None}},
    lambda: {"level": 2**70},
    lambda: {"id": {">": ""}},
    lambda: {"id": ["x"] * 20_000},
    lambda: {"id": {"in": 5}},
    lambda: {"created_at": {">": datetime(1, 1, 1, tzinfo=UTC)}},
    lambda: {"text": {"contains": "a" * 40_000}},
    lambda: {"priority": 5},
    lambda: {"priority": "x"},
    lambda: {"priority": [1, None]},
    lambda: {"tags": "work"},
    lambda: {"hash": b"x"},
    lambda: {"pinned": 1},
    lambda: {"metadata": {"a": 1}},
    lambda: {"nothing": 1},
    lambda: {"aliases": {"contains": ["x"]}},
    lambda: {"metadata.a": {1, 2}},
    lambda: {"metadata.a": object()},
    lambda: {f"metadata.{n}": n for n in range(500)},
    lambda: {"importance": {">": None}},
    lambda: {"": 1},
    lambda: {"superseded_by": None},
    lambda: {"metadata.a": {"<": "x"}},
    lambda: {"metadata.a": {">": [1]}},
    lambda: {"organization_id": "other"},
    lambda: {"content": {"in": [{"a": 1}]}},
    lambda: {"kind": {"": 1}},
)

OBJECTS: Sequence[Callable[[], Any]] = (
    lambda: None,
    object,
    lambda: lambda *_: None,
    lambda: b"bytes",
    bytearray,
    Unprintable,
    OddMapping,
    lambda: OddText("odd"),
    lambda: OddNumber(7),
    lambda: Colour.RED,
    make_failing_iterator,
    lambda: iter(()),
    lambda: (n for n in "ab"),
    lambda: Path("a\x00b"),
    lambda: Path("x" * 5_000),
    lambda: Path("nothing-there"),
    io.StringIO,
    io.BytesIO,
    lambda: ["a", 5],
    lambda: ["a", None],
    lambda: [["a"]],
    lambda: ("x",) * 20_000,
    lambda: {"a", "b"},
    lambda: range(3),
    lambda: memoryview(b"x"),
    lambda: Exception("x"),
    lambda: NotImplemented,
    lambda: ...,
    lambda: [Unprintable()],
)

EVERYTHING: Sequence[Sequence[Any]] = (TEXTS, NUMBERS, TIMES, NESTED, OBJECTS)


def choose_hostile(rng: random.Random) -> Any:
    """Return a random value, usually a hostile one."""
    pool = rng.choice(EVERYTHING)
    value = rng.choice(pool)
    return value() if pool in (NESTED, OBJECTS) else value
